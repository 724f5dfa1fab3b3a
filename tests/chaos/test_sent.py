"""The requests of the lives' clients are those in docs/reliability.md; each request that they do
not send has a reason there.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.chaos.runner import options_of
from raftka.chaos.simulated.swarm import SWARM, Settings
from raftka.chaos.simulation import Options, simulate
from raftka.client.connection import ClientConnection

PAGE = (Path(__file__).parents[2] / "docs/reliability.md").read_text(encoding="utf-8")
ALL = {registration.api.name for registration in HANDLERS.values()}
WORKS = (
    ("recreation", "configs", "wide", "archive", "asking"),
    ("compaction", "groups", "consumer-groups", "streams", "bursts", "transactions", "asking"),
)


def table(head: str) -> dict[str, str]:
    """The second column of a table, by the names in the first."""
    rows = PAGE[PAGE.index(head) :].partition("\n\n")[0].splitlines()[2:]
    cells = [re.split(r" *\| *", row.strip("| ")) for row in rows]
    return {name: second for first, second, *_ in cells for name in first.split(", ")}


SENT = {
    name: {int(each) for each in versions.split()}
    for name, versions in table("| request | versions | odd").items()
}
NOT_SENT = table("| not sent | why |")


def test_every_request_is_sent_or_has_a_reason() -> None:
    assert SENT.keys() | NOT_SENT.keys() == ALL
    assert SENT.keys().isdisjoint(NOT_SENT)


@pytest.mark.parametrize(
    "options",
    [
        *[
            Options(
                SWARM, settings=Settings(beside=works, groups=1, exact=True, seconds=6.0, busy=True)
            )
            for works in WORKS
        ],
        options_of("share"),
        options_of("security"),
    ],
    ids=["topics", "coordinators", "share", "security"],
)
def test_lives_send_what_the_page_says(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = defaultdict(set)
    write = ClientConnection._write

    def noted(self: ClientConnection, api: Any, version: int, row: Any, on_reply: Any) -> None:
        if not str(self.client_id).startswith("broker-"):
            seen[api.name].add(version)
        write(self, api, version, row, on_reply)

    monkeypatch.setattr(ClientConnection, "_write", noted)

    assert not simulate(1, options).violations

    assert seen.keys() <= SENT.keys()
    assert not {
        name: versions - SENT[name] for name, versions in seen.items() if versions - SENT[name]
    }
    assert len(seen) > 10
