"""`raftka produce` and `raftka consume`."""
