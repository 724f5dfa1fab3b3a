"""Share groups (KIP-932): the state of a share partition, as its leader and the share coordinator
know it. Pure.
"""
