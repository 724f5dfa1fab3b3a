"""Delta tables: what a batch commits, what a reader reads, statistics and upkeep. Knows no
topic.
"""
