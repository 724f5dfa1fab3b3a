"""The memory of what was sent: sets of offsets as ranges, against plain sets."""

from random import Random

import pytest

from raftka.console.dead_letters import sent as module
from raftka.console.dead_letters.sent import Offsets, Sent
from raftka.limits import Limit


@pytest.mark.parametrize("seed", range(20))
def test_offsets_hold_what_a_set_holds_in_as_few_ranges_as_there_are(seed: int) -> None:
    random, offsets, plain = Random(seed), Offsets(), set[int]()
    for _ in range(300):
        offset = random.randrange(60)
        if random.random() < 0.7:
            offsets.add(offset)
            plain.add(offset)
        else:
            offsets.discard(offset)
            plain.discard(offset)
        assert [each for each in range(-1, 62) if each in offsets] == sorted(plain)
        assert len(offsets) == sum(1 for each in plain if each - 1 not in plain)


def test_a_letter_in_doubt_is_sent_when_its_acknowledgement_comes() -> None:
    sent = Sent()
    sent.note_in_doubt("id", [(0, 1), (0, 2)])
    sent.note_sent("id", [(0, 1)])
    sent.note_in_doubt("id", [(0, 1)])  # later news of an older try

    assert [sent.was_sent("id", 0, each) for each in (1, 2)] == [True, False]
    assert [sent.is_in_doubt("id", 0, each) for each in (1, 2)] == [False, True]
    assert not sent.was_sent("id", 1, 1)
    assert not sent.was_sent("another", 0, 1)


def test_the_memory_is_full_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_RANGES", Limit("few", 2, "of the test"))
    sent = Sent()
    sent.note_sent("id", [(0, offset) for offset in range(100)])  # neighbours are one
    assert not sent.is_full
    sent.note_in_doubt("id", [(1, 0)])
    assert sent.is_full
