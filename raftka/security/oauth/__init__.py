"""OAUTHBEARER: tokens of an issuer, the keys that they are signed with, and the mechanism."""
