"""The client that commands share, and how they say what went wrong. It speaks Kafka's protocol
alone, so they work against any Kafka.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click

from raftka.cli.connection_options import chosen
from raftka.cli.output import CommandFailed, show, warn_of_lack
from raftka.client.blocking.client import (
    NOT_COORDINATOR,
    PATIENCE_S,
    Client,
    Patience,
    Unreachable,
    Where,
)
from raftka.client.blocking.connection import ANSWER_S, addresses_of
from raftka.client.blocking.every_broker import ask_every_broker
from raftka.json_values import Json
from raftka.properties_file import parse_properties
from raftka.security.client_properties import OF_SECURITY, is_of_security
from raftka.security.client_security import ClientSecurity, client_security
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages.metadata import MetadataResponsePartition
from raftka.wire.schema import Api, Req, Resp

# for the first answer of any broker, and of one: an address that is silent is named within 5 s
FIRST_S, FIRST_ANSWER_S = 4.0, 4.0
TIMEOUT_MS = 30_000  # for the controller, to do what it is asked
WHERE = (
    "is it running? --bootstrap-server HOST:PORT[,...] or RAFTKA_BOOTSTRAP_SERVER say where to ask"
)
HINTS: Mapping[int, str] = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: (
        "`raftka topics list` and `raftka topics describe` show topics and partitions"
    ),
    Code.TOPIC_ALREADY_EXISTS: (
        "--if-not-exists takes it as it is, `raftka topics alter` changes it"
    ),
    Code.INVALID_REPLICATION_FACTOR: "`raftka cluster describe` shows the brokers that live",
    Code.BROKER_NOT_AVAILABLE: "`raftka cluster describe` shows the brokers that live",
    Code.INVALID_REPLICA_ASSIGNMENT: "`raftka cluster describe` shows the brokers that live",
    Code.PREFERRED_LEADER_NOT_AVAILABLE: (
        "the first replica is not in the ISR, which `raftka topics describe` shows; it must "
        "come back first"
    ),
    Code.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica is alive: start a broker that has one",
    Code.NO_REASSIGNMENT_IN_PROGRESS: "`raftka reassign status` shows the reassignments under way",
    Code.INVALID_CONFIG: "`raftka configs describe --all` shows the names and values",
    Code.TRANSACTIONAL_ID_NOT_FOUND: "`raftka transactions list` shows the ids",
    Code.CONCURRENT_TRANSACTIONS: (
        "its last transaction is ending: `raftka transactions describe` shows the partitions "
        "that wait for their markers"
    ),
    Code.NOT_ENOUGH_REPLICAS: (
        "`raftka cluster describe` shows the partitions with too few replicas in sync"
    ),
    Code.NOT_CONTROLLER: "the controller has changed: try again",
    Code.REQUEST_TIMED_OUT: (
        "the controller did not answer in time: `raftka cluster describe` shows whether there "
        "is one"
    ),
}


@contextmanager
def connect(
    bootstrap_server: str, *, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S
) -> Iterator[Client]:
    """A client that has heard of the cluster's brokers. Raises CommandFailed when none answers."""
    try:
        addresses = addresses_of(bootstrap_server)
    except ValueError as error:
        raise CommandFailed(
            f"--bootstrap-server {bootstrap_server}: {error}; it is HOST:PORT[,HOST:PORT...]"
        ) from None
    security = command_security()
    with Client(
        addresses, "raftka-cli", patience_s, answer_s=answer_s, security=security
    ) as client:
        _hear_of_brokers(client, bootstrap_server)
        yield client


def command_security() -> ClientSecurity:
    """Of the command that runs. Raises CommandFailed."""
    return security_of(click.get_current_context(silent=True))


def security_of(context: click.Context | None) -> ClientSecurity:
    """Of a command: -X, its --command-config, its --profile, the strongest first. Raises
    CommandFailed, also for a property of -X that would have no effect: a file may be shared with
    other programs, -X is for this command.
    """
    properties, sources = properties_of(context)
    for name in chosen(context).properties:
        if not is_of_security(name) and not name.startswith(OF_SECURITY):
            raise CommandFailed(
                f"-X {name}: this command has no such property; it takes security.protocol, "
                "ssl.* and sasl.*"
            )
    try:
        return client_security(properties)
    except ValueError as error:
        raise CommandFailed(f"{sources}: {error}") from None


def properties_of(context: click.Context | None) -> tuple[dict[str, str], str]:
    """The client properties of a command, and the names of the options that they are of."""
    found = chosen(context)
    profile = found.profile
    properties = {
        **(profile.properties if profile else {}),
        **(parse_properties(Path(found.file).read_text()) if found.file else {}),
        **found.properties,
    }
    sources = (
        f"--profile {profile.name}" if profile else "",
        found.file,
        "-X" if found.properties else "",
    )
    return properties, ", ".join(filter(None, sources))


def _hear_of_brokers(client: Client, bootstrap_server: str) -> None:
    patience = Patience(FIRST_S, bootstrap_server)
    while True:
        try:
            client.refresh([], answer_s=FIRST_ANSWER_S)
        except ConnectionRefusedError:
            raise CommandFailed(f"no process listens at {bootstrap_server}; {WHERE}") from None
        except OSError as error:
            try:
                patience.wait(error)
            except Unreachable:
                raise CommandFailed(
                    f"no broker answers at {bootstrap_server} ({error}); {WHERE}"
                ) from None
        else:
            return


def ask_all(client: Client, api: Api[Req, Resp], row: Req, lacking: str) -> dict[int, Resp]:
    """Return the answers of the living brokers, by broker. Warn of each that does not; `lacking`:
    what the result may lack then.

    Raises CommandFailed when none answers.
    """
    answers = ask_every_broker(client, api, row, passing=NOT_COORDINATOR.__contains__)
    warn_of_missing(answers.missing, lacking)
    if not answers.of:
        raise CommandFailed(f"no broker has answered {api.name}")
    return answers.of


def warn_of_missing(missing: Mapping[int, str], lacking: str) -> None:
    for node_id, why in sorted(missing.items()):
        warn_of_lack(f"broker {node_id} has not answered ({why}): {lacking}")


def warn_of_lost(lost: Mapping[str, str]) -> None:
    """Name the keys that the answer lacks, those of one reason in one line."""
    reasons: dict[str, list[str]] = {}
    for key, why in lost.items():
        reasons.setdefault(why, []).append(key)
    for why, keys in sorted(reasons.items()):
        warn_of_lack(f"{', '.join(keys)}: {why}")


def sentence(name: str, code: int, message: str | None = None) -> str:
    """Return a sentence that names the error of `name` and the next step."""
    hint = HINTS.get(code)
    return f"{name}: {message or name_of_code(code)}" + (f" ({hint})" if hint else "")


class Named(Protocol):
    """A row of an answer, of one topic, group or other thing."""

    error_code: int

    @property
    def name(self) -> str | None: ...


def refusals(rows: Sequence[Named], forgiven: Code = Code.NONE) -> list[str]:
    """`rows` have a name, an error_code and perhaps an error_message."""
    bad = [row for row in rows if row.error_code not in {Code.NONE, forgiven}]
    return [
        sentence(row.name or "", row.error_code, getattr(row, "error_message", None)) for row in bad
    ]


def finish(
    rows: Sequence[Mapping[str, Json]],
    columns: Sequence[str],
    output: str,
    refused: Sequence[str],
    *,
    own: bool = False,
) -> None:
    """Print the results, as `show` does; raise the refusals as the error."""
    show(rows, columns, output, own=own)
    if refused:
        raise CommandFailed("; ".join(refused))


def partitions_of(client: Client, topics: Sequence[str]) -> dict[Where, MetadataResponsePartition]:
    """As the brokers describe them, of these topics or of all. Raises CommandFailed for a topic
    that is not there.
    """
    found = client.metadata(topics or None).topics
    if refused := refusals(found):
        raise CommandFailed("; ".join(refused))
    return {(topic.name or "", p.partition_index): p for topic in found for p in topic.partitions}
