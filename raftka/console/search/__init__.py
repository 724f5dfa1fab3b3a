"""Search in topics: which records are looked for, and reading through partitions for them."""
