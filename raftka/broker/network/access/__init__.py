"""Who may come in and do what: TLS, logins, and the rights of a session."""
