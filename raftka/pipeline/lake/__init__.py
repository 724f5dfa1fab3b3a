"""Delta tables: commits of batches, reads, statistics and upkeep. Knows no topic."""
