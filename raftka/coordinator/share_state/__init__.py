"""The share coordinator: the persisted state of share partitions, as a machine (KIP-932). Knows no
log and no message.
"""
