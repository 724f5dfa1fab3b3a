"""The metadata quorum: Raft on pysyncobj's core, its journal, and how a journal is read again after
a crash.
"""
