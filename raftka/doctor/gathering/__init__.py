"""Questions whose answers are the facts: to the cluster, to addresses, to this machine."""
