"""Producers and their transactions, as a log remembers them, snapshots of them, and the markers
that end transactions.
"""
