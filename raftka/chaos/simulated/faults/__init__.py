"""What goes wrong in simulated clusters: the schedule, and each kind of fault."""
