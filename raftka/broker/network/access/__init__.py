"""Access of clients: TLS, logins, and the rights of a session."""
