"""Spark's way into topics and out of them: options, offsets, what a batch reads, sources and
sinks.
"""
