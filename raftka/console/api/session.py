"""The browser's own session: log in, log out, and what this console shows and allows."""

from raftka import __version__
from raftka.console.call import Answer, ApiError, Call
from raftka.console.errors import UNAUTHORIZED, is_refused_login
from raftka.console.limits import ALL
from raftka.console.openapi import describe
from raftka.console.parameters import Field
from raftka.console.routes import all_routes, route
from raftka.console.sessions import cookie_name
from raftka.json_values import Json
from raftka.wire.errors import Code


@route(
    "GET",
    "/api/me",
    "The user of this session, and the rights that the console gives",
    open=True,
    answer="user, login_needed, read_only, shows_records, masked, can_control, has_sql, version",
)
def me(call: Call) -> Json:
    settings = call.settings
    return {
        "user": call.session.user,
        "login_needed": bool(settings.login) and call.session.user is None,
        "read_only": settings.read_only,
        "shows_records": settings.show_records,
        "masked": list(settings.masked),
        "can_control": settings.control is not None and not settings.read_only,
        "has_sql": settings.sql is not None and settings.show_records and not settings.masked,
        "version": __version__,
    }


@route(
    "POST",
    "/api/login",
    "Log in with a name and a password of the cluster",
    body={"user": Field(str), "password": Field(str)},
    open=True,
    answer="The user; the answer sets the cookie of the session",
)
def log_in(call: Call) -> Json:
    if not call.settings.login:
        raise ApiError(409, "NO_LOGIN", "nobody logs in at this console")
    user = call.body["user"]
    try:
        token = call.log_in(user, call.body["password"])
    except ValueError:
        raise ApiError(401, UNAUTHORIZED, "there is no such user and password") from None
    except Exception as error:
        if Code.UNSUPPORTED_SASL_MECHANISM.name in str(error):
            mechanism = call.settings.login
            message = f"the brokers take no {mechanism} logins; `raftka console --login` chooses"
            raise ApiError(502, Code.UNSUPPORTED_SASL_MECHANISM.name, message) from None
        if is_refused_login(error):
            raise ApiError(401, UNAUTHORIZED, "there is no such user and password") from None
        raise
    if call.session.user is not None:
        call.session.end()  # of an earlier login of this browser
    return Answer({"user": user}, (cookie(call, token),))


@route("POST", "/api/logout", "Log out", open=True, answer="user: null")
def log_out(call: Call) -> Json:
    if call.session.user is not None:
        call.session.end()
    return Answer({"user": None}, (cookie(call, ""),))


@route("GET", "/api/limits", "Limits of the console, and how often each was hit", answer="limits")
def limits(call: Call) -> Json:
    return {
        "limits": [
            {
                "name": each.name,
                "value": each.value,
                "reason": each.reason,
                "hits": call.hits.get(each.name, 0),
            }
            for each in ALL
        ]
    }


@route("GET", "/api/openapi.json", "This description", open=True, answer="OpenAPI 3.1")
def openapi(call: Call) -> Json:
    return describe(all_routes(), __version__, cookie_name(call.settings.port))


def cookie(call: Call, token: str) -> str:
    """Return the header that sets the session's cookie, or removes it when the token is empty."""
    ends = "" if token else "; Max-Age=0"
    secure = "; Secure" if call.settings.tls is not None else ""
    name = cookie_name(call.settings.port)
    return f"Set-Cookie: {name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"
