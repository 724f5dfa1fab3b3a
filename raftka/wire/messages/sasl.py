"""SaslHandshake (17) and SaslAuthenticate (36): the login (KIP-43, KIP-152, KIP-368). Version 0 of
the handshake is followed by bare tokens.
"""

from raftka.wire.schema import api, row_classes

SASL_HANDSHAKE = api(
    "SaslHandshake",
    17,
    versions="0-1",
    flexible=None,
    request="""
    mechanism                   string
""",
    response="""
    error_code                  int16
    mechanisms                  string[]
""",
)

SASL_AUTHENTICATE = api(
    "SaslAuthenticate",
    36,
    versions="0-2",
    flexible="2+",
    request="""
    auth_bytes                  bytes
""",
    response="""
    error_code                  int16
    error_message               string?
    auth_bytes                  bytes
    session_lifetime_ms         int64       1+
""",
)

__getattr__ = row_classes(SASL_HANDSHAKE, SASL_AUTHENTICATE)
