"""Client quotas: how much a user, a client id or an address may do in a second, and how long it
waits beyond that.
"""
