"""Everything that keeps a turn of the loop short: long work in slices, background workers, the
admission of long requests."""
