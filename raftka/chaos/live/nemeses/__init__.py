"""What is done to a live cluster: to its processes, disks, links, and as an administrator."""
