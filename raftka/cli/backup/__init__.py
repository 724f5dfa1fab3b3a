"""`raftka backup`."""
