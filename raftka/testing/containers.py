"""`KafkaContainer` with the interface of testcontainers', without Docker: tests that use it change
one import.

    from raftka.testing.containers import KafkaContainer

What has a meaning here does what it does there. Options about how Docker runs a container are
taken and change nothing (TAKEN). What a test could notice the lack of is refused by its name
(REFUSED): NeedsDocker says what to do instead.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from raftka.cluster.plan import HOST
from raftka.metadata.configs.environment import KAFKA, property_of, read_variables
from raftka.testing.cluster import Cluster

PORT = 9093  # of the container, as testcontainers has it
QUICK = {"offsets.topic.num.partitions": "1"}  # as the container is configured there

# keyword arguments that say how Docker runs the container, and methods that set such
TAKEN = frozenset(
    {
        "auto_remove",
        "cpu_count",
        "docker_client_kw",
        "labels",
        "mem_limit",
        "name",
        "platform",
        "privileged",
        "remove",
        "shm_size",
    }
)
REFUSED = {
    "command": "there is no image with a command; settings are with_env('KAFKA_...')",
    "create_file": "there are no files of a container; settings are with_env('KAFKA_...')",
    "exec": "there is no shell in a container; run `raftka`, or an admin client",
    "get_container_id": "there is no Docker",
    "get_container_info": "there is no Docker",
    "get_docker_client": "there is no Docker",
    "get_wrapped_container": "there is no Docker",
    "network": "there is no network of containers; clients connect to get_bootstrap_server()",
    "network_aliases": "there is no network of containers; clients connect to "
    "get_bootstrap_server()",
    "network_mode": "there is no network of containers; clients connect to get_bootstrap_server()",
    "tmpfs": "data lies in a temporary folder that goes with the broker",
    "transferables": "there are no files of a container; settings are with_env('KAFKA_...')",
    "tc_start": "it is a step of a container's start",
    "volumes": "data lies in a temporary folder; a broker with a data directory is "
    "`raftka broker start`",
    "wait": "the broker ends with stop()",
    "with_command": "there is no image with a command; settings are with_env('KAFKA_...')",
    "with_copy_into_container": "there are no files of a container; settings are "
    "with_env('KAFKA_...')",
    "with_env_file": "read the file yourself: with_envs(**values)",
    "with_network": "there is no network of containers; clients connect to get_bootstrap_server()",
    "with_network_aliases": "there is no network of containers; clients connect to "
    "get_bootstrap_server()",
    "with_tmpfs_mount": "data lies in a temporary folder that goes with the broker",
    "with_volume_mapping": "data lies in a temporary folder; a broker with a data directory is "
    "`raftka broker start`",
}
# settings that follow from how the broker is started
PLANNED = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
        "zookeeper.connect",
    }
)


class NeedsDocker(ValueError):
    """An option that means nothing without Docker, with what to do instead."""

    def __init__(self, name: str) -> None:
        super().__init__(f"KafkaContainer of raftka has no {name!r}: {REFUSED[name]}")


@dataclass
class KafkaConfig:
    """Of testcontainers: which address a broker in a network of containers tells. There is none
    here, so it changes nothing.
    """

    limit_broker_to_first_host: bool = False


kafka_config = KafkaConfig()


class KafkaContainer:
    """One broker in this process. `image`, `wait_strategy_check_string` and `listener_name` are
    taken and change nothing; `port` is the number that `get_exposed_port` is asked with.
    """

    def __init__(
        self,
        image: str = "raftka",
        port: int = PORT,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        *,
        env: Mapping[str, str] | None = None,
        ports: list[int] | None = None,
        **kwargs: object,
    ) -> None:
        """Raises NeedsDocker, TypeError for an argument that testcontainers does not have either,
        and ValueError for any security protocol but PLAINTEXT: its keys would be files of a
        container. `raftka.testing.Cluster(security=...)` makes its own.
        """
        if security_protocol.upper() != "PLAINTEXT":
            raise ValueError(
                f"security_protocol={security_protocol!r}: secured brokers are "
                f"raftka.testing.Cluster(security={security_protocol!r})"
            )
        self.image = image
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.wait_for = re.compile(wait_strategy_check_string)
        self.kraft_enabled = False
        self.env: dict[str, str] = {}
        self._settings: dict[str, str] = {}
        self._host_port = 0
        self._cluster: Cluster | None = None
        self.with_kwargs(**kwargs)
        self.with_envs(**(env or {}))
        self.with_exposed_ports(*(ports or ()))

    # before the start

    def with_kraft(self) -> Self:
        """It is what raftka has in any case."""
        self.kraft_enabled = True
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """The id that the cluster is formed with: 22 characters of URL-safe base64."""
        self._settings["raftka.cluster.id"] = cluster_id
        return self

    def with_env(self, key: str, value: str) -> Self:
        """KAFKA_LOG_RETENTION_MS is the setting log.retention.ms, as in Kafka's images and in
        raftka's (docs/containers.md). Variables for a JVM, and those that do not begin with KAFKA_,
        change nothing. Raises ValueError for a name that Kafka does not have, and for what follows
        from how the broker is started here.
        """
        self.env[key] = value = str(value)
        if key.startswith(KAFKA) and (name := property_of(key)) in PLANNED:
            raise ValueError(
                f"{key}: {name} follows from how the broker is started here, and cannot be set"
            )
        self._settings |= read_variables({key: value}, _read_text).properties
        return self

    def with_envs(self, **variables: str) -> Self:
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_exposed_ports(self, *ports: str | int) -> Self:
        """Raises ValueError for any port but the broker's: nothing else listens."""
        for port in ports:
            self._check_port(port)
        return self

    def with_bind_ports(self, container: str | int, host: str | int | None = None) -> Self:
        """The broker's port on this machine; None picks a free one."""
        self._check_port(container)
        self._host_port = int(str(host or 0).removesuffix("/tcp"))
        return self

    def with_kwargs(self, **kwargs: object) -> Self:
        """Raises NeedsDocker, and TypeError."""
        for name, value in kwargs.items():
            if name in REFUSED and value is not None:
                raise NeedsDocker(name)
            if name not in TAKEN and name not in REFUSED:
                raise TypeError(f"KafkaContainer has no argument {name!r}")
        return self

    def with_name(self, name: str) -> Self:
        """Containers have names, brokers have none."""
        return self

    def waiting_for(self, strategy: object) -> Self:
        """The broker is ready when `start` returns."""
        return self

    def maybe_emulate_amd64(self) -> Self:
        """The broker runs on any processor."""
        return self

    # its life

    def start(self, timeout: float = 30) -> Self:
        """Return when the broker serves. It starts in a tenth of a second, so `timeout` is never
        reached. Raises RuntimeError when it runs already.
        """
        if self._cluster is not None:
            raise RuntimeError("the broker runs already")
        properties = {**QUICK, **self._settings}
        cluster = Cluster(1, base_port=self._host_port, properties=properties)
        try:
            cluster.start()
        except BaseException:
            cluster.stop()
            raise
        self._cluster = cluster
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Nothing of it stays."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def status(self) -> str:
        return "not_started" if self._cluster is None else "running"

    @property
    def cluster(self) -> Cluster:
        """The cluster, with what raftka has beyond a container: faults, records, waits. Raises
        RuntimeError before the start.
        """
        if self._cluster is None:
            raise RuntimeError("the broker is not started")
        return self._cluster

    # where it is

    def get_bootstrap_server(self) -> str:
        """As every client takes it: host:port."""
        return self.cluster.bootstrap_servers

    def get_container_host_ip(self) -> str:
        return HOST

    def get_exposed_port(self, port: int) -> int:
        """The port on this machine. Raises ValueError for any port but the broker's."""
        self._check_port(port)
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return what the broker has logged for stdout, and nothing for stderr."""
        return self.cluster.log(1).encode(), b""

    def __getattr__(self, name: str) -> NoReturn:
        """Of the rest of the interface. Raises NeedsDocker."""
        if name in REFUSED:
            raise NeedsDocker(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _check_port(self, port: str | int) -> None:
        if str(port).removesuffix("/tcp") != str(self.port):
            raise ValueError(f"nothing listens on port {port}: the broker has {self.port}")


def _read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
