"""A secured cluster on this machine: its authority, keys and files for clients, and its first
users.
"""
