"""Clients of the bridge: one for commands, one for the simulation, and `raftka bridge`."""
