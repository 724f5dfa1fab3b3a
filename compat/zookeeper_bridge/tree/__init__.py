"""The znodes of one moment: stored ones, those computed from Kafka's metadata, quotas, ACLs and
watches.
"""
