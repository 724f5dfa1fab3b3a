"""Frames that nobody would write, some of each API, to a node on virtual time: it answers or
closes, never fails, and a neighbour is served.

`python -m tests.broker.fuzz` sends many more to live nodes and looks at memory too.
"""

from collections.abc import Callable
from itertools import islice
from struct import pack

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.limits import PARTITIONS, TOPICS
from raftka.wire.codec import MAX_STRING
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.schema import AnyApi
from tests.broker import fuzz_frames
from tests.broker.conftest import Lower
from tests.broker.fuzz import NEIGHBOUR, Came
from tests.broker.fuzz_frames import Frames, harmless
from tests.broker.judging import END, judged
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage, Wire

BY_SEED, BY_HYPOTHESIS, OF_ROW = 240, 20, 25


def sent(stage: Stage, wire: Wire, frame: bytes) -> tuple[Wire, Came]:
    """Return the answer, and a connection for the next frame."""
    wire.send(pack(">i", len(frame)) + frame + END)
    answers: list[bytes] = []
    while (answer := wire.frame()) is not None:
        if answer[:4] == END[8:12]:
            return wire, answers
        answers.append(answer)
    return stage.wire(), None


@pytest.mark.parametrize("api", [each.api for each in HANDLERS.values()], ids=lambda api: api.name)
def test_a_node_takes_any_frame(api: AnyApi, lowered: Lower) -> None:
    fuzzed(api, lowered)


def test_a_node_that_looks_at_every_record_takes_any_frame_too(lowered: Lower) -> None:
    fuzzed(PRODUCE, lowered, "records")


@pytest.mark.parametrize("api", [each.api for each in HANDLERS.values()], ids=lambda api: api.name)
def test_a_node_takes_any_words_of_the_greatest_length(
    api: AnyApi, lowered: Lower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers quote them."""
    monkeypatch.setattr(
        fuzz_frames,
        "WORDS",
        [*fuzz_frames.TOPICS, "y" * MAX_STRING, "ü" * (MAX_STRING // 2), "1" * MAX_STRING],
    )

    fuzzed(
        api,
        lowered,
        frames_of=lambda frames: [
            frame for frame in (frames.of_row() for _ in range(OF_ROW)) if harmless(frame)
        ],
    )


def frames_of_both_kinds(frames: Frames) -> list[bytes]:
    return [*frames.by_hypothesis(BY_HYPOTHESIS), *islice(frames, BY_SEED)]


def fuzzed(
    api: AnyApi,
    lowered: Lower,
    validation: str = "header",
    frames_of: Callable[[Frames], list[bytes]] = frames_of_both_kinds,
) -> None:
    lowered(TOPICS, 60)
    lowered(PARTITIONS, 200)
    with Stage(raftka_validation=validation) as stage:
        stage.world.network.delay("client", "n1", 0.0)
        ids = {
            name: stage.create(name, 2, configs=configs)
            for name, configs in fuzz_frames.TOPICS.items()
        }
        stage.create(NEIGHBOUR)
        neighbour, wire = stage.wire(), stage.wire()
        for frame in frames_of(Frames(api, ids, 7)):
            wire, came = sent(stage, wire, frame)
            assert came is None or judged(api, frame, came) is None, frame.hex()
            assert stage.counted("raftka_handler_errors_total") == 0, (
                frame.hex(),
                stage.events("handler_failed"),
            )

        written = produced(neighbour.ask(PRODUCE, produce(NEIGHBOUR, batch(b"1"))))
        assert (written.error_code, written.base_offset) == (0, 0)
        assert (
            bytes(fetched(neighbour.ask(FETCH, fetch(NEIGHBOUR))).records or b"")[61:]
            == batch(b"1")[61:]
        )
        assert not stage.world.failures
        assert '"level": "error"' not in stage.logs[1].getvalue()


def test_the_same_seed_gives_the_same_frames() -> None:
    ids = dict.fromkeys(fuzz_frames.TOPICS, bytes(15) + b"\1")

    first, second, other = (
        [next(frames) for _ in range(50)]
        for frames in (iter(Frames(FETCH, ids, number)) for number in (1, 1, 2))
    )

    assert first == second != other


def test_frames_are_of_both_kinds() -> None:
    """Most come as far as a handler, in every version, some do not; all carry the API's key."""
    ids = dict.fromkeys(fuzz_frames.TOPICS, bytes(15) + b"\1")
    frames = Frames(METADATA, ids, 1)
    some = [frame for frame, _ in zip(frames, range(600), strict=False)]

    understood = [frame for frame in some if frames.understood(frame)]

    assert 0.6 < len(understood) / len(some) < 0.95
    assert {int.from_bytes(frame[2:4]) for frame in understood} == set(range(14))
    assert {frame[:2] for frame in some} == {b"\x00\x03"}
    assert len(frames.by_hypothesis(30)) == 30


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [bytes.fromhex("00000001") + API_VERSIONS.encode_response(0, API_VERSIONS.response())],
            None,
        ),
        (
            [bytes.fromhex("00000002") + API_VERSIONS.encode_response(0, API_VERSIONS.response())],
            "another answer",
        ),
        (
            [
                bytes.fromhex("00000001")
                + API_VERSIONS.encode_response(0, API_VERSIONS.response())
                + b"!"
            ],
            "bytes behind the answer",
        ),
        ([bytes.fromhex("00000001") + b"\x00"], "an answer that is none"),
        ([], "no answer"),
    ],
)
def test_answers_are_judged(answers: list[bytes], said: str | None) -> None:
    found = judged(API_VERSIONS, bytes.fromhex("0012000000000001ffff"), answers)

    assert found == said or (said is not None and (found or "").startswith(said))
