"""The common parts of groups of the new protocols: consumer, share and streams groups."""
