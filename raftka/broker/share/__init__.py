"""Share groups on the leaders of partitions: sessions, acquired records, acknowledgements. The
state is in raftka/share/, the share coordinator persists it.
"""
