"""The console: a cluster in a browser. A Kafka client with pages, over `raftka.client.blocking` and
`raftka.http`; it works in front of any Kafka 4.

A user who logs in here logs in at the brokers: each session has clients with the user's own login,
so the brokers' ACLs hold.
"""
