"""`raftka host ...`."""
