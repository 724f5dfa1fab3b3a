"""One question to every broker of a cluster at once: what those that live answer, and which do not
answer in time.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from raftka.client.blocking.client import Client, error_codes, no_error_passes
from raftka.client.blocking.connection import ClientError, Connection, Unsupported
from raftka.client.connection import Address
from raftka.wire.errors import name_of_code
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.schema import Api, Req, Resp

WITHIN_S = 2.5  # so that a command with a dead broker ends in less than 5 s
NOT_ALIVE = "it is registered and not alive"
TRIES, PAUSE_S = 3, 0.1  # of a broker that refuses connections or ends them


@dataclass
class Answers(Generic[Resp]):
    of: dict[int, Resp] = field(default_factory=dict)  # by broker
    missing: dict[int, str] = field(default_factory=dict)  # by broker: why it has no answer


def ask_every_broker(
    client: Client,
    api: Api[Req, Resp],
    row: Req,
    *,
    passing: Callable[[int], bool] = no_error_passes,
    within_s: float = WITHIN_S,
) -> Answers[Resp]:
    """Ask all brokers of the cluster, also those that are registered and not alive. `passing`: the
    errors after which a broker is asked again.

    Raises OSError when no broker tells which brokers there are, Unsupported when one does not know
    the API.
    """
    client.refresh([])
    answers = ask_brokers(
        client, api, dict.fromkeys(client.brokers, row), passing=passing, within_s=within_s
    )
    for node_id in fenced_brokers(client):
        if node_id not in answers.of:
            answers.missing[node_id] = NOT_ALIVE
    return answers


def ask_brokers(
    client: Client,
    api: Api[Req, Resp],
    rows: Mapping[int, Req],
    *,
    passing: Callable[[int], bool] = no_error_passes,
    within_s: float = WITHIN_S,
) -> Answers[Resp]:
    """Ask each of these brokers its own question. A broker whose answer has a passing error at the
    end of the time is missing.
    """
    answers: Answers[Resp] = Answers()
    end = time.monotonic() + within_s
    questions = {}
    for node_id, row in sorted(rows.items()):
        address = client.brokers.get(node_id)
        if address is None:
            answers.missing[node_id] = "it is not alive"
        else:
            questions[node_id] = _Question(client, address, api, row, passing, end)
    for question in questions.values():
        question.thread.start()
    for node_id, question in questions.items():
        question.thread.join(max(0.0, end - time.monotonic()))
        answer, why, unsupported = question.answer, question.why, question.unsupported
        if unsupported is not None:
            raise unsupported
        if answer is None:
            answers.missing[node_id] = why
        else:
            answers.of[node_id] = answer
    return answers


def fenced_brokers(client: Client) -> list[int]:
    """Return the brokers that are registered and not alive, as far as the cluster tells."""
    try:
        answer = client.ask_any(
            DESCRIBE_CLUSTER, DESCRIBE_CLUSTER.request(include_fenced_brokers=True)
        )
    except (OSError, ClientError):  # older than Kafka 4.0
        return []
    return sorted(each.broker_id for each in answer.brokers if each.is_fenced)


class _Question(Generic[Req, Resp]):
    """Asked on a connection of its own, in a thread of its own: a broker that is silent holds up no
    other.
    """

    def __init__(
        self,
        client: Client,
        address: Address,
        api: Api[Req, Resp],
        row: Req,
        passing: Callable[[int], bool],
        end: float,
    ) -> None:
        self.answer: Resp | None = None
        self.why = "it does not answer"
        self.unsupported: Unsupported | None = None
        self._client, self._address, self._api, self._row = client, address, api, row
        self._passing, self._end = passing, end
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        tries = 0
        while tries < TRIES and (left := self._end - time.monotonic()) > 0:
            try:
                connection = Connection(
                    self._address, self._client.client_id, left, self._client.security
                )
                try:
                    answer = connection.send(self._api, self._row).wait()
                finally:
                    connection.close()
            except Unsupported as error:
                self.unsupported = error
                return
            except (OSError, ClientError) as error:
                self.why = str(error) or type(error).__name__
                tries += 1
            else:
                again = sorted(filter(self._passing, error_codes(answer)))
                if not again:
                    self.answer = answer
                    return
                self.why = ", ".join(map(name_of_code, again))
            time.sleep(PAUSE_S)
