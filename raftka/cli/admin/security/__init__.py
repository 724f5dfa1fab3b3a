"""`raftka acls`, `users`, `quotas` and `tokens`."""
