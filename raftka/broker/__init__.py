"""The shell on Trio: sockets to machines and back. architecture.md draws the way of a request;
node.py puts everything together.
"""
