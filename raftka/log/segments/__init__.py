"""Segments and their indexes: the files of one log, reads, searches, scans and flushes."""
