"""Questions to the coordinators of groups and transactions, all at once: a coordinator that is dead
or silent holds up no other, and its keys are named.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple

from raftka.client.blocking.client import (
    GROUP,
    NOT_COORDINATOR,
    ONE_KEY,
    PAUSE_S,
    Client,
    check,
    is_retriable,
)
from raftka.client.blocking.every_broker import ask_brokers
from raftka.wire.errors import name_of_code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.schema import Api, Req, Resp

FIND_S = 1.5  # for all keys to get a coordinator: one that changes does so in less
ANSWER_S = 2.0  # with the above, and the start, a command with a dead broker ends within 5 s


class Coordinated(NamedTuple, Generic[Resp]):
    """Answers by broker, and for each key without an answer the reason."""

    answers: Mapping[int, Resp]
    lost: Mapping[str, str]


def find_coordinators(
    client: Client, keys: Iterable[str], kind: int = GROUP
) -> tuple[dict[int, list[str]], dict[str, str]]:
    """Return the keys by the broker that coordinates them, and why others have none. Raises
    KafkaError for a key that the caller may not see, and OSError when no broker answers.
    """
    end = time.monotonic() + FIND_S
    found: dict[int, list[str]] = {}
    without: dict[str, str] = {}
    for key in dict.fromkeys(keys):
        request = FIND_COORDINATOR.request(key=key, key_type=kind)
        while True:
            answer = client.ask_any(FIND_COORDINATOR, request, ONE_KEY)
            if not is_retriable(answer.error_code):
                check(answer.error_code, answer.error_message)
                found.setdefault(answer.node_id, []).append(key)
                break
            if time.monotonic() >= end:
                without[key] = f"no broker coordinates it ({name_of_code(answer.error_code)})"
                break
            time.sleep(PAUSE_S)
    return found, without


def ask_coordinators(
    client: Client,
    api: Api[Req, Resp],
    keys: Iterable[str],
    make_request: Callable[[Sequence[str]], Req],
    kind: int = GROUP,
) -> Coordinated[Resp]:
    """Ask each coordinator about its keys. Raises as `find_coordinators` does, and Unsupported."""
    owners, lost = find_coordinators(client, keys, kind)
    if owners.keys() - client.brokers.keys():
        client.refresh([])  # the client has not heard of these brokers yet
    answers = ask_brokers(
        client,
        api,
        {node_id: make_request(own) for node_id, own in owners.items()},
        passing=NOT_COORDINATOR.__contains__,
        within_s=ANSWER_S,
    )
    for node_id, why in answers.missing.items():
        text = f"its coordinator, broker {node_id}, has not answered ({why})"
        lost |= dict.fromkeys(owners[node_id], text)
    return Coordinated(answers.of, lost)
