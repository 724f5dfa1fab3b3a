"""What a node tells of itself: metrics, the event log, and the log of metadata changes. Knows no request."""
