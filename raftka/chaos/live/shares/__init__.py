"""A thousand share consumers of a live cluster, which crash and come back, and their judge."""
