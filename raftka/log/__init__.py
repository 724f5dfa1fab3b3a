"""One partition's records on disk, in Kafka's own files. Knows nothing of replication, clients,
clocks or threads.
"""
