"""HTTP/1.1 for all servers and clients of the project, sans-IO on httptools.

The node's runtime drives a connection in its turns; `thread.py` drives the same class in a thread.
"""
