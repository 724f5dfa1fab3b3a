"""Workloads of simulated clusters beside the loaded topic, and their rules."""
