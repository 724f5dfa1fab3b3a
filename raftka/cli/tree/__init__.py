"""The tree of commands as such: its two kinds of nodes, help, corrections, completion."""
