"""Payloads compared with their schemas, in a process of its own: schemas and payloads come from
strangers, and a library may loop or crash.
"""
