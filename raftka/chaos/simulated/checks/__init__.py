"""Rules of simulated clusters: for logs, disks and metadata, and for all nodes at the end."""
