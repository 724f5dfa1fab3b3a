"""Clients of simulated clusters: what they ask, as which library, and what they saw."""
