"""Whole clusters of unmodified nodes in a simulated world, their clients, and what happens to
them.
"""
