"""Balance of a cluster: its state, read from the brokers, and the moves of a plan, carried out. The
plan itself is raftka/metadata/balance.py. Knows no raftka: Kafka's protocol does.
"""
