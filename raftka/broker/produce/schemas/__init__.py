"""Batches of clients compared with schemas of a registry, for topics with
confluent.*.schema.validation.
"""
