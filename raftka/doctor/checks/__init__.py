"""Checks by subject: pure functions of facts. `table.py` has them all."""
