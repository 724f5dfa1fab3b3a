"""Kerberos logins (SASL's GSSAPI): the mechanism, users' names, and the optional library below."""
