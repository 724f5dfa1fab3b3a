"""Share consumers of a live cluster: the story that killed processes leave, and a round of them."""

from math import inf
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftka.chaos.checks.shares import (
    Acknowledgement,
    Acquired,
    Fetch,
    Kind,
    Outcome,
    Promises,
    Session,
    check_story,
)
from raftka.chaos.live.clients import wire
from raftka.chaos.live.run import Options, live
from raftka.chaos.live.shares.crowd import NEMESIS
from raftka.chaos.live.shares.story_file import SURELY_S, StoryFile, StoryWriter, load
from raftka.chaos.simulated.clients.sharing import Notes
from raftka.chaos.verdict import Outcome as Result
from raftka.cli.commands import root

TOPIC, GROUP, BROKER = "chaos", "g", ("127.0.0.1", 9092)
LONG_S = 3 * SURELY_S


class Scene:
    """Consumers of two processes, and the leader of partition 0 as it was seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = StoryFile(path)
        self.notes = [Notes(5000, StoryWriter(self.file, GROUP, name)) for name in ("p1", "p2")]

    def led(self, since: float, until: float, epoch: int = 1) -> None:
        for at in (since, until):
            self.file.write("leaders", at, {0: (BROKER, epoch)})

    def fetch(self, process: int, session: Session, at: float, *acquired: Acquired) -> Fetch:
        found = Fetch(session, (TOPIC, 0), at)
        notes = self.notes[process]
        notes.on_asked([found], [])
        found.answered_at, found.acquired = at + 0.1, acquired
        notes.on_answered([found], [])
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "shares.jsonl")


def test_the_story_of_all_processes_is_read_back(scene: Scene) -> None:
    session = Session("ann", BROKER)
    scene.notes[0].values[0, 7] = b"seven"
    scene.fetch(0, session, 1.0, Acquired(7, 7, 1))
    accepted = Acknowledgement(session, (TOPIC, 0), Kind.ACCEPT, 7, 7, 2.0)
    scene.notes[0].on_asked((), [accepted])
    accepted.outcome = Outcome.TAKEN
    scene.notes[0].on_answered((), [accepted])
    scene.notes[1].wrong.append("something odd")
    scene.fetch(1, Session("bob", BROKER), 3.0)

    story, wrong, values = load(scene.path, TOPIC)[GROUP]

    assert [each.session.member for each in story.fetches] == ["ann", "bob"]
    assert story.fetches[0].acquired == [Acquired(7, 7, 1)]
    (found,) = story.acknowledgements
    assert (found.kind, found.outcome) == (Kind.ACCEPT, Outcome.TAKEN)
    assert found.session is story.fetches[0].session
    assert wrong == ["something odd"]
    assert len(values[0, 7]) == 1


def test_a_request_of_a_killed_process_has_no_answer(scene: Scene) -> None:
    session = Session("ann", BROKER)
    scene.notes[0].on_asked([Fetch(session, (TOPIC, 0), 1.0)], [])
    with scene.path.open("ab") as cut_short:
        cut_short.write(b'["answered","g",')

    (fetch,) = load(scene.path, TOPIC)[GROUP].story.fetches

    assert fetch.answered_at == inf
    assert fetch.session.is_over


def test_a_leader_is_known_where_it_surely_led(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.chaos.live.shares.story_file.monotonic", lambda: SURELY_S + 0.2)
    scene.led(0.0, LONG_S)
    scene.led(LONG_S + 0.1, LONG_S + 0.2, epoch=2)
    scene.fetch(0, Session("sure", BROKER), SURELY_S + 0.1)
    scene.fetch(0, Session("early", BROKER), 0.1)
    scene.fetch(0, Session("elsewhere", ("127.0.0.1", 9093)), SURELY_S + 0.1)

    fetches = load(scene.path, TOPIC)[GROUP].story.fetches

    assert [each.term for each in fetches] == [(BROKER, 1), None, None]


def test_two_locks_of_one_record_are_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("raftka.chaos.live.shares.story_file.monotonic", lambda: now[0])
    scene.led(0.0, 2 * LONG_S)
    ann, bob = Session("ann", BROKER), Session("bob", BROKER)
    for process, session, at in ((0, ann, 2.0), (1, bob, 2.5)):
        now[0] = at + 0.1
        scene.fetch(process, session, at, Acquired(7, 7, 1))
    now[0] = 3.1
    scene.fetch(0, ann, 3.0)  # the session of the first goes on

    found = check_story(load(scene.path, TOPIC)[GROUP].story, Promises(5, 5.0))

    assert {each.partition(":")[0] for each in found} == {"count back", "two locks"}


def test_a_round_of_share_consumers_that_crash(tmp_path: Path) -> None:
    options = Options(
        0.3,
        nemesis=("kill-leader",),
        seed=5,
        per_s=50,
        partitions=2,
        clients=(wire.NAME,),
        share_consumers=32,
    )

    run = live(options, tmp_path)

    assert run.verdict.outcome is Result.VALID, run.verdict
    figures = run.figures["share_consumers"]
    assert figures["consumers"] == 32
    assert figures["crashes"] == 8 * run.figures["faults"][NEMESIS] > 0
    assert figures["deliveries"] >= figures["records"] > 0


def test_share_consumers_know_no_tls() -> None:
    told = CliRunner().invoke(root, ["chaos", "live", "--secure", "--share-consumers", "4"])

    assert told.exit_code == 2
    assert "share consumers know no TLS" in told.output
