"""Schemas below the registry, the broker and the pipeline: their formats, values written with them,
Confluent's framing, and the protocol of a registry's client.
"""
