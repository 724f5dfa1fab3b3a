"""Share groups (KIP-932): their members, and the share partitions whose state is initialised."""
