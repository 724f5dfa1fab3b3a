"""Connections of clients: frames, dispatch, long requests, quotas of connections, and the
authorizer's interface.
"""
