"""Coordinators on the partitions of an internal topic, and the group coordinator, the first of
them.
"""
