"""Checks of payloads by their schemas, in a process of its own: clients send both, and a library
may loop or crash.
"""
