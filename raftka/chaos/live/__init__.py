"""Live: real processes, real clients, real faults. `run.py` is one round of it."""
