"""Metrics, the event log, and the log of metadata changes. Knows no request."""
