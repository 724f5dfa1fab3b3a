"""Confluent's REST API: its requests and their answers."""
