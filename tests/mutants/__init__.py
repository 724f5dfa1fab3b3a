"""Planted bugs: mistakes that a broker could make, so that the harness can show that it finds
each.
"""
