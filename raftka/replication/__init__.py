"""Replication of one partition: what is committed, who is in sync, what a follower takes over.
Pure: offsets, epochs and time are arguments.
"""
