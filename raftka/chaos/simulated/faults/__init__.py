"""Faults of simulated clusters: the schedule, and each kind of fault."""
