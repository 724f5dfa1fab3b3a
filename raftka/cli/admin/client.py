"""The admin client that commands share, and how it says what went wrong. kafka-python's, so they work against any Kafka. Knows no command."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from raftka.cli.output import CommandFailed, show
from raftka.json_values import Json, JsonObject
from raftka.wire.errors import Code

WHERE = "is it running? --bootstrap-server HOST:PORT[,...] or RAFTKA_BOOTSTRAP_SERVER say where to ask"
HINTS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "`raftka topics list` and `raftka topics describe` show what there is",
    Code.TOPIC_ALREADY_EXISTS: "--if-not-exists takes it as it is, `raftka topics alter` changes it",
    Code.INVALID_REPLICATION_FACTOR: "`raftka cluster describe` shows the brokers that live",
    Code.BROKER_NOT_AVAILABLE: "`raftka cluster describe` shows the brokers that live",
    Code.INVALID_REPLICA_ASSIGNMENT: "`raftka cluster describe` shows the brokers that live",
    Code.PREFERRED_LEADER_NOT_AVAILABLE: "the first replica is not in the ISR: `raftka topics describe` shows who is; it must come back first",
    Code.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica is alive: start a broker that has one",
    Code.NO_REASSIGNMENT_IN_PROGRESS: "`raftka reassign status` shows what is under way",
    Code.INVALID_CONFIG: "`raftka configs describe --all` shows the names and what they are set to",
    Code.NOT_CONTROLLER: "the controller has changed: try again",
    Code.REQUEST_TIMED_OUT: "the controller did not answer in time: `raftka cluster describe` shows whether there is one",
}


def client(kind: type[Any], bootstrap_server: str, **options: Any) -> Any:
    from kafka.errors import KafkaError

    if not any(map(_listens, bootstrap_server.split(","))):
        raise CommandFailed(f"nobody listens at {bootstrap_server}; {WHERE}")
    try:
        return kind(bootstrap_servers=bootstrap_server, client_id="raftka-cli", bootstrap_timeout_ms=5_000, **options)
    except KafkaError as error:
        raise CommandFailed(f"no broker answers at {bootstrap_server} ({type(error).__name__}); {WHERE}") from None
    except ValueError as error:
        raise CommandFailed(f"--bootstrap-server {bootstrap_server}: {error}; it is HOST:PORT[,HOST:PORT...]") from None


def _listens(address: str) -> bool:
    """False where a connection is refused at once: the client would go on trying for seconds. Names and silence are the client's to find out."""
    host, _, port = address.strip().rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
    except (ConnectionRefusedError, ValueError):
        return False
    except OSError:
        return True
    return True


@contextmanager
def admin(bootstrap_server: str) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    class Admin(KafkaAdminClient):  # type: ignore[misc]
        """Kafka's default for all brokers is a broker without a name, which kafka-python takes for a mistake."""

        @staticmethod
        def _group_config_resources(config_resources: Any) -> Any:
            unnamed = [each for each in config_resources if each.name == ""]
            brokers, others = KafkaAdminClient._group_config_resources([each for each in config_resources if each.name != ""])
            return brokers, others + unnamed

    connected = client(Admin, bootstrap_server)
    try:
        yield connected
    finally:
        connected.close()


def sentence(name: str, code: int, message: str | None = None) -> str:
    """What went wrong with `name`, and what to do about it."""
    try:
        known = Code(code)
    except ValueError:
        return f"{name}: {message or f'error {code}'}"
    hint = HINTS.get(known)
    return f"{name}: {message or known.name}" + (f" ({hint})" if hint else "")


def refusals(rows: Sequence[Mapping[str, Json]], forgiven: Code = Code.NONE) -> list[str]:
    bad = [row for row in rows if row["error_code"] not in {Code.NONE, forgiven}]
    return [sentence(row["name"], row["error_code"], row.get("error_message")) for row in bad]


def finish(rows: Sequence[Mapping[str, Json]], columns: Sequence[str], output: str, refused: Sequence[str]) -> None:
    """Print what was done; what was not is the error."""
    show(rows, columns, output)
    if refused:
        raise CommandFailed("; ".join(refused))


def partitions_of(connected: Any, topics: Sequence[str]) -> dict[tuple[str, int], JsonObject]:
    """As the brokers describe them, of these topics or of all. Raises CommandFailed for a topic that is not there."""
    found = connected.describe_topics(list(topics) or None)
    if refused := refusals(found):
        raise CommandFailed("; ".join(refused))
    return {(str(topic["name"]), int(p["partition_index"])): p for topic in found for p in topic["partitions"]}
