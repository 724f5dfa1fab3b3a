"""`raftka chaos ...`: simulated and live runs, replay, shrink, planted bugs, reports."""
