"""Decisions of the active controller for the bridge: writes to znodes and sessions, and writes to
Kafka's metadata.
"""
