"""What must hold in simulated clusters: of logs, disks, metadata, and all nodes at the end."""
