"""Replicas of partitions: the replica manager, ISR, fetch sessions, and followers that fetch from
leaders.
"""
