"""The list of topics as a function of what is known: no cluster."""

import pytest

from raftka.console.topics.table import Wanted, list_topics, old_s
from raftka.console.view.metadata import Metadata, Partition, Topic
from raftka.console.view.sizes import Sizes
from raftka.console.view.view import Overview

ALL = Wanted("", "name", 1, 50, False, "any")
NOTHING = Overview(None, None, None, None, 0.0)


def cluster(*names: str) -> Metadata:
    whole = Partition(0, 1, 0, (1, 2), (1, 2), ())
    topics = [Topic(name, "", name.startswith("_"), [whole], None) for name in sorted(names)]
    return Metadata("c", 1, {}, {topic.name: topic for topic in topics}, {})


def names(metadata: Metadata, overview: Overview, wanted: Wanted) -> list[str]:
    return [row["name"] for row in list_topics(metadata, overview, wanted)["topics"]]


@pytest.mark.parametrize("sort", ["bytes", "-bytes"])
def test_unknown_values_come_last_in_both_orders(sort: str) -> None:
    sizes = Sizes({}, {"a": 5, "c": 9}, {}, [], {})
    known = NOTHING._replace(sizes=sizes)
    found = names(cluster("a", "b", "c"), known, ALL._replace(sort=sort))

    assert found == (["a", "c", "b"] if sort == "bytes" else ["c", "a", "b"])


def test_without_figures_rows_are_null_and_the_rest_is_named() -> None:
    answer = list_topics(cluster("a"), NOTHING, ALL)
    (row,) = answer["topics"]

    assert {row[key] for key in ("bytes", "rate", "messages", "lag", "groups")} == {None}
    assert answer["pending"] == ["sizes", "ends", "messages", "lags"]


def test_an_age_is_mentioned_in_steps_and_only_when_it_is_high() -> None:
    assert [old_s(age) for age in (0, 29.9, 30, 39.9, 61)] == [0, 0, 30, 30, 60]
