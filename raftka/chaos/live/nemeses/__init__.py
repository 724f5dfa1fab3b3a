"""Faults of a live cluster: in its processes, disks and links, and by its administrator."""
