"""Requests that look like the one before them on their connection, answered without decoding."""
