"""Settings that a container needs and that its environment does not give: those of a single node,
and those that follow from the others, as the images of Kafka derive them.
"""

from collections.abc import Mapping

from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.listeners import AUTOMATIC
from raftka.metadata.configs.values import SettingError

CONTROLLER, CONTROLLER_PORT, LOOPBACK = "CONTROLLER", 9093, "127.0.0.1"
# Without any listener: one for clients on the machine that publishes port 9092, one for containers.
HOST_LISTENER, CONTAINER_LISTENER = "PLAINTEXT_HOST://:9092", "PLAINTEXT://:19092"
HOST_ADDRESS = "PLAINTEXT_HOST://localhost:9092"
PROTOCOL_MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
# names of one thing: what the environment says with one is not to meet what a file says with the
# other
ALIKE = (("log.dirs", "log.dir"), ("node.id", "broker.id"))
QUORUM = ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers")
# with one node; Kafka's defaults need three
OF_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def fill_in_defaults(given: Mapping[str, str], below: Mapping[str, str]) -> dict[str, str]:
    """Return `given`, then the settings of `below` (a file), then the defaults of a container.
    Raises SettingError.
    """
    weaker = {
        name: value
        for name, value in below.items()
        if not any(name in names and not given.keys().isdisjoint(names) for names in ALIKE)
    }
    found = {**weaker, **given}
    if not any(found.get(name) for name in QUORUM):
        found["process.roles"] = "broker,controller"
        if found.keys().isdisjoint(("node.id", "broker.id")):
            found["node.id"] = "1"
    roles = _list(found, "process.roles")
    if "controller" in roles:
        found.setdefault("controller.listener.names", CONTROLLER)
        _fill_in_voters(found, "broker" in roles)
    elif found.get("controller.quorum.bootstrap.servers") and not _voters(found):
        raise SettingError(
            "controller.quorum.bootstrap.servers does not say the ids of the controllers: give "
            "controller.quorum.voters too (KAFKA_CONTROLLER_QUORUM_VOTERS)"
        )
    _fill_in_listeners(found, roles)
    if "broker" in roles and len(_voters(found)) == 1 and "controller" in roles:
        found = {**OF_ONE_NODE, **found}
    return found


def _fill_in_voters(found: dict[str, str], is_broker: bool) -> None:
    """The one controller of a cluster needs no list."""
    if _voters(found):
        return
    node_id = found.get("node.id") or found.get("broker.id", "")
    servers = _list(found, "controller.quorum.bootstrap.servers")
    if len(servers) > 1:
        raise SettingError(
            "controller.quorum.bootstrap.servers does not say the ids of the controllers: give "
            "controller.quorum.voters (KAFKA_CONTROLLER_QUORUM_VOTERS), or those of "
            "--initial-controllers (KAFKA_INITIAL_CONTROLLERS)"
        )
    if servers:
        found["controller.quorum.voters"] = f"{node_id}@{servers[0]}"
    elif is_broker:
        port = _port_of(found, _list(found, "controller.listener.names")[0])
        found["controller.quorum.voters"] = f"{node_id}@{LOOPBACK}:{port or CONTROLLER_PORT}"


def _fill_in_listeners(found: dict[str, str], roles: list[str]) -> None:
    """Listeners follow from advertised listeners, as in Kafka's images; that of the controller from
    its place in controller.quorum.voters.
    """
    is_broker = "broker" in roles
    listeners = _list(found, "listeners")
    advertised = _list(found, "advertised.listeners")
    if is_broker and not listeners:
        if not advertised and "listener.security.protocol.map" not in found:
            found["listener.security.protocol.map"] = PROTOCOL_MAP
            found["advertised.listeners"] = f"{HOST_ADDRESS},PLAINTEXT://{AUTOMATIC}"
            found.setdefault("inter.broker.listener.name", "PLAINTEXT")
            listeners = [HOST_LISTENER, CONTAINER_LISTENER]
        elif not advertised or advertised == [AUTOMATIC]:
            listeners = ["PLAINTEXT://:9092"]
        else:
            listeners = [_at_every_address(each) for each in advertised]
    if "controller" in roles:
        name = _list(found, "controller.listener.names")[0]
        if not any(each.upper().startswith(f"{name.upper()}://") for each in listeners):
            host, port = _own_vote(found)
            # a controller that has no other needs no address for others
            listeners.append(f"{name}://{host if host == LOOPBACK else ''}:{port}")
    if listeners:
        found["listeners"] = ",".join(listeners)
    if is_broker and not found.get("advertised.listeners"):
        everywhere = any("://:" in each or "://0.0.0.0:" in each for each in listeners)
        found.pop("advertised.listeners", None)
        if everywhere:
            found["advertised.listeners"] = AUTOMATIC


def _at_every_address(advertised: str) -> str:
    """Return the listener of an advertised one."""
    name, _, rest = advertised.partition("://")
    port = rest.rpartition(":")[2]
    if not port.isdecimal():
        raise SettingError(
            f"advertised.listeners: {advertised} has no port, so listeners must be given too "
            "(KAFKA_LISTENERS)"
        )
    return f"{name}://:{port}"


def _own_vote(found: Mapping[str, str]) -> tuple[str, str]:
    """Return host and port of this node in controller.quorum.voters."""
    node_id = found.get("node.id") or found.get("broker.id", "")
    for each in _voters(found):
        voter, _, address = each.partition("@")
        if voter == node_id.strip():
            host, _, port = address.rpartition(":")
            return host, port
    return "", str(CONTROLLER_PORT)


def _port_of(found: Mapping[str, str], listener: str) -> str | None:
    own = (
        each
        for each in _list(found, "listeners")
        if each.upper().startswith(f"{listener.upper()}://")
    )
    return next((each.rpartition(":")[2] for each in own), None)


def _voters(found: Mapping[str, str]) -> list[str]:
    return _list(found, "controller.quorum.voters")


def _list(found: Mapping[str, str], name: str) -> list[str]:
    return list(BROKER_SETTINGS[name].parse(found.get(name) or "") or ())
