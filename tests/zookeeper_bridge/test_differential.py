"""The bridge answers what a real ZooKeeper answers, but for what docs/bridge.md says. Some seeds;
`side_by_side` has the command for many.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.load import BenchFailed
from bench.zookeepers import JARS, available
from tests.zookeeper_bridge.plays import Play, Step
from tests.zookeeper_bridge.side_by_side import DIFFERENCES, Stage, counted, stage
from zookeeper_bridge.protocol.opcodes import Op

DOCUMENT = Path(__file__).parents[2] / "docs" / "bridge.md"
MOST_DIFFERENCES = 10
# verbs of their own, or inside a multi
INSIDE = {Op.CREATE_SESSION, Op.CLOSE_SESSION, Op.AUTH, Op.MULTI, Op.MULTI_READ, Op.CHECK}


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if not available():
        pytest.skip("ZooKeeper needs java, and mvn where its jars are not there yet")
    if not JARS.is_dir() and not request.config.getoption("--all-clients"):
        pytest.skip(
            f"{JARS} is not there; ./run test --all-clients and ./run bench bridge fetch it"
        )
    try:
        with stage() as both:
            yield both
    except BenchFailed as failed:
        pytest.skip(str(failed))


@pytest.mark.parametrize("seed", range(4))
def test_the_bridge_answers_as_zookeeper_does(both: Stage, seed: int) -> None:
    steps, differences = both.compare(seed, 150)

    assert len(steps) > 150
    assert differences == []


def test_the_comparison_sees_a_difference(both: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # how often children have come and gone
    monkeypatch.setattr("zookeeper_bridge.tree.store.int32", lambda number: number % 1000 + 1)

    _, differences = both.compare(1000, 100)

    assert differences


def test_the_plays_have_every_operation() -> None:
    found = sum((counted(Play(seed, "/x").steps(400)) for seed in range(10)), Counter[str]())

    assert {op.name for op in Op if op not in INSIDE} <= set(found)
    assert {
        "multi",
        "multi_read",
        "close",
        "connect",
        "again",
        "drop",
        "hijack",
        "expire",
        "strange",
        "broken",
        "from_the_future",
    } <= set(found)
    assert found["writes"] >= 0.3 * found["operations"]


def test_a_seed_is_one_play() -> None:
    assert Play(7, "/x").steps(100) == Play(7, "/x").steps(100)
    assert Play(7, "/x").steps(100) != Play(8, "/x").steps(100)
    assert all(isinstance(step, Step) for step in Play(7, "/x").steps(5))


def test_each_allowed_difference_is_documented() -> None:
    table = DOCUMENT.read_text().partition("## Differences from ZooKeeper")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.+?) \|$", table, re.MULTILINE)[1:]

    assert {what for what, _ in rows} == set(DIFFERENCES)
    assert len(rows) <= MOST_DIFFERENCES
    assert all(len(why) > 5 for _, why in rows)
