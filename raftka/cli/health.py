"""`raftka broker health`: asks a node on this machine, at its metrics.port, whether clients may use
it. For the health checks of containers.
"""

import json
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from ssl import CERT_NONE, SSLContext, create_default_context

from raftka.cli.output import CommandFailed, command
from raftka.cluster.environment import node_properties
from raftka.cluster.properties import parse
from raftka.metadata.configs.listeners import ANY_ADDRESS
from raftka.metadata.configs.settings import NodeSettings


@command
def check_health(file: str | None, from_env: bool, timeout_s: float) -> None:
    settings = _settings(file, from_env)
    port = settings["metrics.port"]
    if not port:
        raise CommandFailed(
            "the node has no fixed metrics.port, at which its health could be asked"
        )
    host = "127.0.0.1" if settings.page_host in ANY_ADDRESS else settings.page_host
    status, body = _get(settings, host, port, timeout_s)
    try:
        health = json.loads(body)
        reason = health.get("reason") or health["status"]
    except (ValueError, LookupError, AttributeError):
        raise CommandFailed(f"{host}:{port} answers {status}, and not as a node does") from None
    if status != 200:
        raise CommandFailed(f"unavailable: {reason}")
    print(health["status"])


def _settings(file: str | None, from_env: bool) -> NodeSettings:
    try:
        if from_env:
            return NodeSettings.from_properties(node_properties(file).properties)
        return NodeSettings.from_properties(parse(Path(file or "").read_text(encoding="utf-8")))
    except ValueError as error:
        raise CommandFailed(str(error) if from_env else f"{file}: {error}") from None


def _get(settings: NodeSettings, host: str, port: int, timeout_s: float) -> tuple[int, bytes]:
    """Return status and body of the node's /health. Raises CommandFailed."""
    connection = (
        HTTPSConnection(host, port, timeout=timeout_s, context=_unverified())
        if settings["metrics.ssl.enable"]
        else HTTPConnection(host, port, timeout=timeout_s)
    )
    try:
        connection.request("GET", "/health", headers=_login(settings))
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, HTTPException) as error:
        raise CommandFailed(f"no answer from {host}:{port}: {error}") from None
    finally:
        connection.close()


def _unverified() -> SSLContext:
    """The node is on this machine, and its certificate names what clients call it."""
    context = create_default_context()
    context.check_hostname, context.verify_mode = False, CERT_NONE
    return context


def _login(settings: NodeSettings) -> dict[str, str]:
    """Return the headers of a login, where the settings have one; the page may need none."""
    token: str | None = settings["metrics.auth.bearer.token"]
    if token:
        return {"Authorization": f"Bearer {token.strip()}"}
    users: str | None = settings["metrics.auth.basic.users"]
    if users:
        user = users.split(",")[0].strip()
        return {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}
    return {}
