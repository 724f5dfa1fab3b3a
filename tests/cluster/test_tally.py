"""The demo's bookkeeping: each way to go wrong is seen, and named for what it is."""

from raftka.cluster.tally import Tally, Verdict

A, B = b"a", b"b"


def tallied(read: list[tuple[bytes, int]], *, acknowledged: int = 3) -> Verdict:
    """Three records of each of two keys are sent, so many of each acknowledged; then these are
    read.
    """
    tally = Tally([A, B])
    for number in range(3):
        for key in (A, B):
            assert tally.send(key, b"%d" % number) == number
            if number < acknowledged:
                tally.acknowledge(key, number, partition=0 if key == A else 1)
    for key, number in read:
        tally.read(key, number, b"%d" % number, 0 if key == A else 1)
    return tally.verdict()


ALL = [(A, 0), (B, 0), (B, 1), (A, 1), (A, 2), (B, 2)]


def test_everything_once_and_in_order_is_good() -> None:
    verdict = tallied(ALL)

    assert verdict.good
    assert (verdict.sent, verdict.acknowledged, verdict.read) == (6, 6, 6)
    assert verdict.sent_hash == verdict.read_hash


def test_acknowledged_and_not_read_is_lost() -> None:
    verdict = tallied([r for r in ALL if r != (A, 1)])

    assert (verdict.lost, verdict.duplicated, verdict.out_of_order, verdict.good) == (
        1,
        0,
        0,
        False,
    )


def test_not_acknowledged_and_not_read_is_not_lost() -> None:
    verdict = tallied([r for r in ALL if r[1] < 2], acknowledged=2)

    assert (verdict.lost, verdict.given_up, verdict.good) == (0, 2, False)


def test_read_twice_is_duplicated() -> None:
    verdict = tallied([*ALL, (A, 0), (A, 0)])

    assert (verdict.lost, verdict.duplicated, verdict.out_of_order, verdict.read, verdict.good) == (
        0,
        2,
        0,
        6,
        False,
    )


def test_late_is_out_of_order() -> None:
    verdict = tallied([(A, 1), (A, 0), (A, 2), (B, 0), (B, 1), (B, 2)])

    assert (verdict.lost, verdict.duplicated, verdict.out_of_order, verdict.good) == (
        0,
        0,
        1,
        False,
    )


def test_changed_content_shows_in_the_hash() -> None:
    tally = Tally([A])
    tally.acknowledge(A, tally.send(A, b"as sent"), 0)
    tally.read(A, 0, b"as read", 0)

    assert not tally.verdict().good


def test_the_busiest_partition_and_its_records() -> None:
    tally = Tally([A, B])
    for key, times in ((A, 2), (B, 3)):
        for _ in range(times):
            tally.acknowledge(key, tally.send(key, b""), 7 if key == B else 5)
    tally.send(B, b"")

    assert tally.busiest() == 7
    assert tally.sent_to(7) == {B: 4}


def test_records_of_others_are_passed_by_and_counted() -> None:
    tally, other = Tally([A]), Tally([A])
    for _ in range(3):
        tally.acknowledge(A, tally.send(A, b"v"), 0)
    own = tally.headers_of(1)
    foreign: list[tuple[bytes | None, list[tuple[str, bytes | None]], bytes | None]] = [
        (A, [], b"v"),
        (None, [], None),
        (None, [*own], b"v"),
        (b"nobody", [*own], b"v"),
        (A, [("n", b"1")], b"v"),
        (A, [*other.headers_of(1)], b"v"),
        (A, [("x", b"y"), *own[1:]], b"v"),
        (A, [("n", None), *own[1:]], b"v"),
        (A, [("n", b"-1"), *own[1:]], b"v"),
        (A, [("n", b"\xff"), *own[1:]], b"v"),
        (A, [*tally.headers_of(3)], b"v"),
        (A, [*own], None),
    ]
    for key, headers, value in foreign:
        tally.read_record(key, headers, value, 0)
    for number in range(3):
        tally.read_record(A, tally.headers_of(number), b"v", 0)

    assert tally.foreign == len(foreign)
    assert tally.verdict().good
