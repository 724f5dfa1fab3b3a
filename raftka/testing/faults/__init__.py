"""Faults on demand, between what a client has sent and what a broker makes of it.

`selection.py` chooses requests, `places.py` finds topics, partitions and groups in any message,
`effects.py` says what goes wrong, `injector.py` puts it between the clients and the nodes.
"""
