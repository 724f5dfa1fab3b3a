"""Confluent's REST API: requests, and what each of them does."""
