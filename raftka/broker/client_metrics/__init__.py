"""Metrics that clients push (KIP-714): subscriptions, client instances, their series, the export
by OTLP.
"""
