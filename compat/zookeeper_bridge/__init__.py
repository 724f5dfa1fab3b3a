"""ZooKeeper's protocol on a raftka node, for tools of the time when Kafka needed one. The broker
knows nothing of it; it is off by default.
"""
