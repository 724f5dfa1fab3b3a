"""The addresses of a node as its settings have them: listeners, advertised listeners, their
security protocols. Opens none.
"""

import re
from collections.abc import Mapping, Sequence

from raftka.metadata.configs.values import SettingError, Values
from raftka.metadata.image import Endpoint
from raftka.security.client_security import PROTOCOLS

AUTOMATIC = "auto"  # of advertised.listeners
ANY_ADDRESS = ("", "0.0.0.0", "::")


def parse_listeners(
    values: Values, roles: frozenset[str], given: Mapping[str, str], protocols: Mapping[str, str]
) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    """The listeners of the broker and those of the controller."""
    names = values["controller.listener.names"] or ()
    if "controller" in roles and ("listeners" not in given or not names):
        raise SettingError(
            "a controller needs listeners and controller.listener.names, e.g. "
            "CONTROLLER://host:port and CONTROLLER"
        )
    endpoints = [_endpoint("listeners", text, protocols) for text in values["listeners"]]
    if len({each.listener for each in endpoints}) < len(endpoints):
        raise SettingError("listeners has a name twice")
    clients = tuple(each for each in endpoints if each.listener not in names)
    controllers = tuple(each for each in endpoints if each.listener in names)
    if bool(clients) != ("broker" in roles) or bool(controllers) != ("controller" in roles):
        raise SettingError(
            "listeners must have those of controller.listener.names for a controller, others for "
            "a broker, and no more"
        )
    return clients, controllers


def parse_protocols(values: Values, given: bool) -> dict[str, str]:
    """Security protocol by listener name, both in upper case; the controller's listener is
    PLAINTEXT when there is no map, as in Kafka.
    """
    protocols: dict[str, str] = (
        {} if given else dict.fromkeys(values["controller.listener.names"] or (), "PLAINTEXT")
    )
    for pair in values["listener.security.protocol.map"].split(","):
        name, separator, protocol = pair.strip().partition(":")
        if not separator:
            raise SettingError(
                f"listener.security.protocol.map must be NAME:PROTOCOL,...: {pair!r} is not"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _endpoint(setting: str, text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = re.fullmatch(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:]*\]|[^:/\s]*):(\d+)", text)
    if match is None or int(match[3]) > 65535:
        raise SettingError(f"{setting} must be NAME://host:port,...: {text!r} is not")
    name = match[1].upper()
    if name not in protocols:
        raise SettingError(f"listener.security.protocol.map does not have the listener {name}")
    if protocols[name] not in PROTOCOLS:
        raise SettingError(
            f"listener {name}: {protocols[name]} is not a security protocol; there are "
            f"{', '.join(PROTOCOLS)}"
        )
    return Endpoint(name, match[2].strip("[]"), int(match[3]), protocols[name])


def parse_advertised(
    values: Values,
    clients: tuple[Endpoint, ...],
    controllers: tuple[Endpoint, ...],
    protocols: Mapping[str, str],
) -> tuple[tuple[Endpoint, ...], frozenset[str]]:
    """Return the advertised listeners of the broker, and the names of those that are automatic:
    their clients are told the address at which they reached the node. A controller's address is in
    controller.quorum.voters: an advertised listener of a controller is checked, and not used.

    The host of an automatic listener is what the other nodes are told: the host at which it
    listens, empty where that is every address. Raises SettingError.
    """
    texts = values["advertised.listeners"]
    if texts is None:
        given, automatic = list(clients), frozenset[str]()
    elif AUTOMATIC in texts:
        if texts != (AUTOMATIC,):
            raise SettingError(
                f"advertised.listeners: {AUTOMATIC} stands alone; for one listener of several "
                f"write NAME://{AUTOMATIC}"
            )
        given, automatic = list(clients), frozenset([each.listener for each in clients])
    else:
        given, automatic = _advertised(texts, clients, controllers, protocols)
    theirs = {
        *(values["controller.listener.names"] or ()),
        *(each.listener for each in controllers),
    }
    advertised = [each for each in given if each.listener not in theirs] if clients else []
    ours = [each.listener for each in clients]
    missing = next((each.listener for each in advertised if each.listener not in ours), None)
    if missing is not None:
        raise SettingError(
            f"advertised.listeners has the listener {missing}, which listeners does not have"
        )
    if clients and not advertised:
        raise SettingError(
            "advertised.listeners must have a listener of the broker, not only those of "
            "controller.listener.names"
        )
    return (
        tuple(
            [
                each._replace(host="" if each.host in ANY_ADDRESS else each.host)
                if each.listener in automatic
                else _reachable(each)
                for each in advertised
            ]
        ),
        automatic & {each.listener for each in advertised},
    )


def _advertised(
    texts: Sequence[str],
    clients: tuple[Endpoint, ...],
    controllers: tuple[Endpoint, ...],
    protocols: Mapping[str, str],
) -> tuple[list[Endpoint], frozenset[str]]:
    """Return the endpoints of the texts, and the names of the automatic ones."""
    own = {each.listener: each for each in (*clients, *controllers)}
    given, automatic = [], set()
    for text in texts:
        name, separator, rest = text.partition("://")
        if separator and rest == AUTOMATIC:
            endpoint = own.get(name.upper()) or _endpoint(
                "advertised.listeners", f"{name}://:0", protocols
            )
            automatic.add(endpoint.listener)
        else:
            endpoint = _endpoint("advertised.listeners", text, protocols)
        given.append(endpoint)
    return given, frozenset(automatic)


def _reachable(endpoint: Endpoint) -> Endpoint:
    if endpoint.host in ("0.0.0.0", "::"):
        raise SettingError(
            f"no client can connect to {endpoint.host}: set advertised.listeners to an address "
            f"that clients can reach, or to {AUTOMATIC}"
        )
    return endpoint._replace(host=endpoint.host or "localhost")


def find_inter_broker(
    values: Values, advertised: tuple[Endpoint, ...], protocols: Mapping[str, str]
) -> str:
    """A controller without a broker may name it too: its brokers have that listener."""
    names = [each.listener for each in advertised]
    if values["inter.broker.listener.name"] is None:
        return names[0] if names else ""
    wanted: str = values["inter.broker.listener.name"].upper()
    if wanted in (values["controller.listener.names"] or ()):
        raise SettingError(
            f"inter.broker.listener.name is {wanted}, which is a listener of controllers "
            "(controller.listener.names)"
        )
    if wanted not in protocols:
        raise SettingError(
            f"inter.broker.listener.name is {wanted}, which listener.security.protocol.map does "
            "not have"
        )
    if names and wanted not in names:
        raise SettingError(
            f"inter.broker.listener.name is {wanted}, which is not in advertised.listeners"
        )
    return wanted
