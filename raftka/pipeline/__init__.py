"""Spark's way into topics and out of them. The broker knows nothing of it; what it needs beyond raftka is the extra `raftka[pipeline]`."""
