"""Compaction: which records of a log stay, and the new segments that hold them."""
