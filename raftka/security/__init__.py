"""Security as values and sans-IO machines: SASL mechanisms, TLS, names of principals, ACLs. Knows
no connection of a broker and no metadata log.
"""
