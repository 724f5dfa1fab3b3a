"""The cluster's metadata: the Raft engine and its journal, the records it carries, the image they
add up to, and the controller that decides them.
"""
