"""Some attacks on TLS records; `python -m tests.broker.fuzz --tls 100000` makes more."""

from random import Random

from tests.security import tls_fuzz


def test_ends_take_any_records() -> None:
    ends = tls_fuzz.attack(300, 7)

    assert ends["closed"] > 100
    assert ends["whole"] > 10


def test_the_same_seed_gives_the_same_attacks() -> None:
    random = Random(3), Random(3)

    assert [tls_fuzz.changed(b"record" * 9, random[0]) for _ in range(50)] == [
        tls_fuzz.changed(b"record" * 9, random[1]) for _ in range(50)
    ]
