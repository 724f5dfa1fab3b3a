"""SaslHandshake: v0-1, and SaslAuthenticate: v0-2, where no login is due: without SASL, and after
it. The login is in authentication.py.
"""

from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.wire.errors import Code
from raftka.wire.messages.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


@handles(SASL_HANDSHAKE)
def sasl_handshake(request: Request[SaslHandshakeRequest]) -> SaslHandshakeResponse:
    return SASL_HANDSHAKE.response(error_code=int(Code.ILLEGAL_SASL_STATE))


@handles(SASL_AUTHENTICATE)
def sasl_authenticate(request: Request[SaslAuthenticateRequest]) -> SaslAuthenticateResponse:
    logged_in = bool(request.session.mechanism)
    text = "after successful authentication" if logged_in else "on a listener without SASL"
    message = f"SaslAuthenticate request received {text}"
    return SASL_AUTHENTICATE.response(
        error_code=int(Code.ILLEGAL_SASL_STATE), error_message=message
    )
