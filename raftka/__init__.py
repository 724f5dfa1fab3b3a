"""raftka: a Kafka-protocol broker in Python on Trio; its metadata lives in a Raft quorum.
docs/architecture.md shows the house.
"""

__version__ = "0.1.0"
