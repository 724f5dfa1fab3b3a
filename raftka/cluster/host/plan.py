"""The brokers of a host, from the host's one properties file. Starts nothing.

Broker i (from 0) has node.id + i, the ports of its listeners + i (0 stays 0), and <directory>/<node
id> of each data directory. All have broker.rack, which is the host's name unless the file has it.
The first broker has the roles of the file, the controller's listener, the schema registry and the
bridge; the others are brokers without a vote. The file's metrics.port is the host's page; that of
each broker is on 127.0.0.1, behind a token that the supervisor alone knows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raftka.limits import HOST_BROKERS
from raftka.metadata.configs.listeners import AUTOMATIC
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.used_ports import OTHER_PORTS, UsedPort, check_distinct
from raftka.metadata.configs.values import SettingError
from raftka.metadata.image import Endpoint

LOOPBACK = "127.0.0.1"
DIRECTORIES = ("log.dirs", "log.dir", "metadata.log.dir")
ADMIN_PORT = "zookeeper.bridge.admin.port"
OF_THE_FIRST = tuple(OTHER_PORTS)
OF_THE_PAGE = ("metrics.ssl.", "metrics.auth.")  # of the host's page, not of the brokers'


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    node_id: int
    has_vote: bool
    properties: Mapping[str, str]
    settings: NodeSettings

    @property
    def address(self) -> str | None:
        """Return the address for clients; None: the port is chosen when it starts."""
        first = self.settings.advertised_listeners[0]
        return f"{_bracketed(first.host or 'localhost')}:{first.port}" if first.port else None


@dataclass(frozen=True, slots=True)
class HostPlan:
    settings: NodeSettings  # of the file, as if it were one node's
    rack: str
    brokers: tuple[BrokerPlan, ...]

    def with_pages(self, ports: Sequence[int], token: str) -> "HostPlan":
        """Each broker has its pages on a port of 127.0.0.1, for those who show the token."""
        return HostPlan(
            self.settings,
            self.rack,
            tuple([_with_page(*each, token) for each in zip(self.brokers, ports, strict=True)]),
        )


def _with_page(broker: BrokerPlan, port: int, token: str) -> BrokerPlan:
    page = {"metrics.port": str(port), "metrics.host": LOOPBACK}
    # its pages have the same logins: with that port there are none (plan_host)
    if broker.settings[ADMIN_PORT] is None:
        page["metrics.auth.bearer.token"] = token
    properties = {**broker.properties, **page}
    return BrokerPlan(
        broker.node_id, broker.has_vote, properties, NodeSettings.from_properties(properties)
    )


def plan_host(properties: Mapping[str, str], brokers: int, host_name: str) -> HostPlan:
    """Raises SettingError, a sentence for the user: nothing is started then."""
    if not 1 <= brokers <= HOST_BROKERS.value:
        raise SettingError(f"--brokers {brokers}: a host has 1 to {HOST_BROKERS.value} brokers")
    settings = NodeSettings.from_properties(properties)
    if not settings.is_broker:
        raise SettingError(
            "process.roles is controller: a host runs brokers; start a controller alone with "
            "raftka broker start"
        )
    if settings[ADMIN_PORT] is not None and any(
        name.startswith(OF_THE_PAGE) for name in properties
    ):
        raise SettingError(
            f"{ADMIN_PORT} shares metrics.ssl.* and metrics.auth.* with a broker's page, which a "
            "host takes for its own: leave one out"
        )
    rack = settings.rack or host_name
    planned = []
    for number in range(brokers):
        own = _properties(properties, settings, number, rack)
        try:
            planned.append(
                BrokerPlan(
                    settings.node_id + number,
                    number == 0 and settings.is_controller,
                    own,
                    NodeSettings.from_properties(own),
                )
            )
        except SettingError as error:
            raise SettingError(
                f"broker {settings.node_id + number} of {brokers}: {error}"
            ) from None
    _check_ports(settings, planned)
    return HostPlan(settings, rack, tuple(planned))


def _properties(
    given: Mapping[str, str], settings: NodeSettings, number: int, rack: str
) -> dict[str, str]:
    """Of one broker."""
    node_id = settings.node_id + number
    own = {
        name: value
        for name, value in given.items()
        if name != "metrics.port" and not name.startswith(OF_THE_PAGE)
    }
    own |= {name: str(node_id) for name in ("node.id", "broker.id") if name in given} | {
        "broker.rack": rack
    }
    directories = [name for name in DIRECTORIES if given.get(name)] or ["log.dirs"]
    for name in directories:
        paths = given[name].split(",") if given.get(name) else settings.log_dirs
        own[name] = ",".join(f"{path.strip().rstrip('/')}/{node_id}" for path in paths)
    if not number:
        return own
    if node_id in [voter.node_id for voter in settings.voters]:
        raise SettingError(
            f"broker {node_id} of this host is in controller.quorum.voters: a host has one voter, "
            "its first broker, "
            f"and node.id of the next host must be above {node_id}"
        )
    clients = _moved("listeners", settings.listeners, number)
    own |= {
        "process.roles": "broker",
        "listeners": clients,
        "advertised.listeners": _moved(
            "advertised.listeners",
            settings.advertised_listeners,
            number,
            settings.automatic_listeners,
        ),
    }
    for name in OF_THE_FIRST:
        own.pop(name, None)
    return own


def _moved(
    setting: str,
    endpoints: Sequence[Endpoint],
    by: int,
    automatic: frozenset[str] = frozenset(),
) -> str:
    for each in endpoints:
        if each.port and each.port + by > 65535:
            raise SettingError(f"{setting}: port {each.port} + {by} is above 65535")
    return ",".join(
        f"{each.listener}://{AUTOMATIC}"
        if each.listener in automatic
        else f"{each.listener}://{_bracketed(each.host)}:{each.port + by if each.port else 0}"
        for each in endpoints
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_ports(settings: NodeSettings, brokers: Sequence[BrokerPlan]) -> None:
    in_a_row = (
        f"a host of {len(brokers)} brokers takes {len(brokers)} ports in a row for each listener"
    )
    check_distinct(ports_of_host(settings, brokers), in_a_row)


def ports_of_host(settings: NodeSettings, brokers: Sequence[BrokerPlan]) -> list[UsedPort]:
    """Return the ports of the host's page and of all its brokers, without those that are chosen
    later.
    """
    used = [each for each in settings.used_ports if each.setting != "listeners"]
    for broker in brokers:
        own = [each for each in broker.settings.used_ports if each.setting == "listeners"]
        used += [each._replace(whose=f"{each.whose} of broker {broker.node_id}") for each in own]
    return used
