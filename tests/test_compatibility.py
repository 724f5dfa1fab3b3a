"""docs/compatibility.md is so: what is announced, what Kafka has besides, which recorded exchanges
differ, which settings do nothing.
"""

import json
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

import raftka.broker.handlers  # noqa: F401  # registers them
from raftka.broker.handlers.api_versions import TELEMETRY
from raftka.broker.network.dispatch import HANDLERS
from raftka.metadata.configs.broker import BROKER_SETTINGS
from tests.broker.golden_requests import OF_4_4
from tests.kit.broker import kafka_differences
from tests.kit.documents import rows

TEXT = (Path(__file__).parent.parent / "docs" / "compatibility.md").read_text(encoding="utf-8")
AT_MOST_DIFFERENT = 15
AT_MOST_OF_4_4 = 0.05  # a share of the replayed exchanges
FOLDER = Path(__file__).parent / "broker"
EXCHANGES_OF_4_4 = {  # numbers by file
    name: {
        json.loads(line)["n"]
        for line in (FOLDER / f"golden_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    }
    for name in (
        "44",
        "elr",
        "quorum",
        "share_dead_letters",
        "share_fetch",
        "share_groups",
        "share_nodes",
        "share_state",
        "streams",
        "streams_plugin",
    )
}
DIFFERENT_FROM_4_4 = [
    *kafka_differences.OF_4_4,
    *kafka_differences.ELECTIONS,
    *kafka_differences.VOTERS,
    *kafka_differences.SHARES,
    *kafka_differences.STREAMS,
    *kafka_differences.TOPOLOGY_DESCRIPTIONS,
]
DIFFERENT_SECURITY = [
    *kafka_differences.LOGINS,
    *kafka_differences.RIGHTS,
    *kafka_differences.TOKENS_OF_ISSUERS,
    *kafka_differences.TOKEN_LOGINS,
    *kafka_differences.PIPELINED,
]


def kafkas() -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in OF_4_4[0].answer.api_keys}


def numbers(cell: str) -> list[int]:
    return [int(number) for number in cell.split()]


def test_the_first_table_is_what_is_announced() -> None:
    told = [row[:3] for row in rows("## The APIs", TEXT) if len(row) == 4][1:]

    apis = [HANDLERS[key].api for key in sorted(HANDLERS)]
    assert told == [
        [api.name, str(api.key), f"{api.announced.low}-{api.announced.high}"] for api in apis
    ]


def test_every_version_that_kafka_announces_is_announced() -> None:
    always = HANDLERS.keys() - set(TELEMETRY)
    assert {key: tuple(HANDLERS[key].api.announced) for key in always} == {
        key: kafkas()[key] for key in always
    }


def test_no_api_of_kafka_is_missing() -> None:
    assert kafkas().keys() - HANDLERS.keys() == set()


def test_every_difference_stands_there_with_its_reason() -> None:
    different = rows("## Recorded exchanges that", TEXT)

    assert [(tuple(numbers(row[0])), row[1]) for row in different if row[0][:1].isdigit()] == [
        (n, why) for n, _, why in kafka_differences.REQUESTS
    ]
    transactions = rows("## Recorded transactions", TEXT)
    assert [(tuple(numbers(row[0])), row[1]) for row in transactions if row[0].isdigit()] == [
        (n, why) for n, _, why in kafka_differences.TRANSACTIONS
    ]
    security = rows("## Recorded security", TEXT)
    told = [(tuple(numbers(row[0])), row[1]) for row in security if row[0][:1].isdigit()]
    assert told == [(n, why) for n, _, why in DIFFERENT_SECURITY]


def test_every_difference_from_4_4_stands_there() -> None:
    different = [row for row in rows("## Recorded exchanges of", TEXT) if row[0][:1].isdigit()]

    assert [(numbers(row[0]), row[2]) for row in different] == [
        (list(n), why) for n, _, why in DIFFERENT_FROM_4_4
    ]
    for row in different:
        assert set(numbers(row[0])) <= EXCHANGES_OF_4_4[row[1]]


def test_every_kind_of_batch_that_is_answered_otherwise_stands_there() -> None:
    told = [row[0] for row in rows("## Batches are judged", TEXT)]

    assert told[told.index("batch", 1) + 1 :] == list(kafka_differences.ODD_BATCHES)


def test_few_exchanges_differ() -> None:
    assert (
        len(set(chain.from_iterable(n for n, _, _ in kafka_differences.REQUESTS)))
        <= AT_MOST_DIFFERENT
    )
    of_4_4 = {(why, number) for n, _, why in DIFFERENT_FROM_4_4 for number in n}
    assert len(of_4_4) <= AT_MOST_OF_4_4 * sum(map(len, EXCHANGES_OF_4_4.values()))


def test_settings_that_do_nothing_are_reported_and_no_others() -> None:
    patterns = [
        pattern.strip("`")
        for row in rows("## Settings that are accepted", TEXT)[1:]
        for pattern in row[0].split()
    ]
    told = {
        pattern: {name for name in BROKER_SETTINGS if fnmatchcase(name, pattern)}
        for pattern in patterns
    }

    assert [pattern for pattern, names in told.items() if not names] == []
    assert sorted(set(chain.from_iterable(told.values()))) == sorted(
        name for name, setting in BROKER_SETTINGS.items() if not setting.used
    )
