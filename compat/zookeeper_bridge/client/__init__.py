"""Clients of the bridge: the blocking one, and `raftka bridge`, which uses it."""
