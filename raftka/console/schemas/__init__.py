"""Schemas of the registry: what the console asks of it, and differences between versions."""
