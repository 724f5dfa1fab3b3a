"""An overlay is what its base would be after the changes, in the order of the base, and the base
does not change.
"""

from random import Random
from typing import Any

import pytest

from raftka.coordinator.overlay import Overlay


def _change(values: Any, random: Random) -> None:
    key = random.choice("abcdefgh")
    if random.random() < 0.5:
        values[key] = random.random()
    else:
        values.pop(key, None)


@pytest.mark.parametrize("looks", [False, True], ids=["looked-at-last", "looked-at-between"])
@pytest.mark.parametrize("seed", range(50))
def test_an_overlay_reads_like_a_copy_with_the_changes(seed: int, looks: bool) -> None:
    random = Random(seed)
    base = dict.fromkeys(random.sample("abcdefgh", random.randint(0, 8)), 0.0)
    copy, overlay, before = dict(base), Overlay(base), dict(base)
    for step in range(random.randint(0, 12)):
        _change(copy, Random(f"{seed} {step}"))
        _change(overlay, Random(f"{seed} {step}"))
        assert len(overlay) == len(copy)
        assert {key: overlay.get(key) for key in "abcdefgh"} == {
            key: copy.get(key) for key in "abcdefgh"
        }
        assert [key in overlay for key in "abcdefgh"] == [key in copy for key in "abcdefgh"]
        if looks and step == 3:
            assert list(overlay) == list(copy)

    assert list(overlay.items()) == list(copy.items())
    assert list(overlay.values()) == list(copy.values())
    assert base == before


def test_what_is_not_there_is_a_key_error() -> None:
    overlay = Overlay({"a": 1})
    del overlay["a"]

    for wrong in (lambda: overlay["a"], lambda: overlay.__delitem__("a"), lambda: overlay["b"]):
        with pytest.raises(KeyError):
            wrong()
