"""Each kind of finding, planted in a live cluster: `raftka doctor` names it, the next step works,
and where that mends it, the finding is gone. A sound cluster has none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.workload import wait
from tests.doctor.plants import PLANTED, SETTINGS, STDIN
from tests.kit.live import Done, Live, live


@contextmanager
def kept() -> Iterator[list[AssertionError]]:
    """Keep a failure until the cluster is as it was: it is shared."""
    failures: list[AssertionError] = []
    try:
        yield failures
    except AssertionError as error:
        failures.append(error)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Done]]:
    """A cluster in which topics and groups work, and the first findings about it."""
    with live(tmp_path_factory.mktemp("doctor"), 3, SETTINGS) as cluster:
        cluster.do("raftka topics create orders -p 6 -r 3")
        cluster.do("raftka produce orders", "one\ntwo\nthree\n")
        cluster.do("raftka consume orders --from start --group billing -n 3")
        file = cluster.cluster.nodes[1].plan.properties_file
        yield cluster, cluster.doctor("--config", str(file))


@pytest.fixture
def cluster(sound: tuple[Live, Done]) -> Live:
    return sound[0]


def test_a_sound_cluster_has_no_finding(sound: tuple[Live, Done]) -> None:
    assert sound[1] == (0, {}, "")


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_named_and_the_next_step_works(cluster: Live, kind: str) -> None:
    plant, is_mended = PLANTED[kind]
    with plant(cluster), kept() as failure:
        done = cluster.doctor()
        assert kind in done.found, (done.found, done.errors)
        assert done.code == 1
        cluster.do(done.found[kind]["next"], STDIN.get(kind, ""))
        if is_mended:
            wait(lambda: kind not in cluster.doctor().found)
    if failure:
        raise failure[0]


def test_a_later_release_is_finalised_by_the_next_step(tmp_path: Path) -> None:
    kind = "features-not-finalised"
    with live(tmp_path, 1, {}) as cluster:
        assert cluster.doctor().found == {}
        file = cluster.cluster.nodes[1].plan.properties_file
        cluster.restart(1, file.read_text(encoding="utf-8"), "tests.doctor.later")
        found = cluster.doctor().found
        assert found.keys() == {kind}
        cluster.do(found[kind]["next"])
        assert cluster.doctor().found == {}
