"""What a log remembers of producers and their transactions, the snapshots of it, and the markers
that end transactions.
"""
