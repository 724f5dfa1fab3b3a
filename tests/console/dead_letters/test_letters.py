"""Headers of dead letters, for each program that writes them."""

import pytest

from raftka.client.blocking.reader import FetchedRecord
from raftka.console.dead_letters.letters import (
    NO_ERROR,
    REDRIVEN_FROM,
    REDRIVEN_TIMES,
    Failure,
    Origin,
    own_headers,
    read_letter,
)
from tests.kit import dead_letters
from tests.kit.dead_letters import ERROR, MESSAGE, OWN, STACK, Headers

FAILURE = Failure(ERROR, MESSAGE, STACK)
TIME_MS = 1_700_000_000_000


def record(*headers: tuple[str, bytes | None], value: bytes | None = b"v") -> FetchedRecord:
    return FetchedRecord("bad", 0, 9, 1, b"k", value, headers)


@pytest.mark.parametrize(
    ("headers", "convention", "failure", "origin"),
    [
        (dead_letters.connect(), "Kafka Connect", FAILURE, Origin("orders", 1, 42, None)),
        (dead_letters.spring(), "Spring Kafka", FAILURE, Origin("orders", 1, 42, TIME_MS)),
        (dead_letters.streams(), "Kafka Streams", FAILURE, Origin("orders", 1, 42, None)),
        (
            dead_letters.share_group(),
            "share group",
            Failure("", "Offset rejected by client.", ""),
            Origin("orders", 1, 42, None),
        ),
        (
            dead_letters.validation(),
            "schema validation",
            Failure("", MESSAGE, ""),
            Origin("orders", 1, None, TIME_MS),
        ),
        (
            dead_letters.pipeline(),
            "pipeline",
            Failure("", MESSAGE, ""),
            Origin("orders", 1, 42, TIME_MS),
        ),
        (
            (
                ("kafka_original-topic", b"orders"),
                ("kafka_original-partition", bytes(4)),
                ("kafka_exception-fqcn", ERROR.encode()),
                ("retry_topic-attempts", bytes(4)),
            ),
            "Spring Kafka with retry topics",
            Failure(ERROR, "", ""),
            Origin("orders", 0, None, None),
        ),
        (
            (
                ("x-original-topic", b"orders"),
                ("x-original-offset", (7).to_bytes(8, "big")),
                ("x-exception-fqcn", ERROR.encode()),
                ("x-exception-message", MESSAGE.encode()),
            ),
            "Spring Cloud Stream",
            Failure(ERROR, MESSAGE, ""),
            Origin("orders", None, 7, None),
        ),
        (
            (
                ("dead-letter-exception-class-name", ERROR.encode()),
                ("dead-letter-reason", MESSAGE.encode()),
                ("dead-letter-topic", b"orders"),
                ("dead-letter-partition", b"3"),
                ("dead-letter-offset", b"1234"),  # four digits are no binary number
            ),
            "SmallRye",
            Failure(ERROR, MESSAGE, ""),
            Origin("orders", 3, 1234, None),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_failure_and_origin_are_read_from_the_headers_of_each_convention(
    headers: Headers, convention: str, failure: Failure, origin: Origin
) -> None:
    own = () if convention == "pipeline" else OWN  # its letters have no other headers
    failed = record(*own, *headers)
    letter = read_letter(failed)

    assert (letter.convention, letter.failure, letter.origin) == (convention, failure, origin)
    assert own_headers(failed) == own


@pytest.mark.parametrize(
    ("headers", "details"),
    [
        ((("webhook", b"https://a"), ("idempotency_key", b"1"), ("error", b"503")), {"webhook"}),
        ((("source", b"files"), ("error", b"no number")), {"source"}),
        ((("source", b"files"), ("error", b"e"), ("file", b"a.csv")), {"source", "file"}),
    ],
)
def test_letters_that_come_from_no_topic_have_no_origin(
    headers: Headers, details: set[str]
) -> None:
    letter = read_letter(record(*headers))

    assert (letter.origin, letter.details.keys() >= details) == (None, True)
    assert letter.failure.message.encode() == dict(headers)["error"]
    assert own_headers(record(*headers)) == ()


def test_common_names_of_headers_do_not_make_a_letter() -> None:
    """The pipeline's names are everybody's: its letters have all of them, and no others."""
    for headers in (
        (("topic", b"a"), ("error", b"b")),
        (*dead_letters.pipeline(), *OWN),
        (*dead_letters.pipeline(), ("error", b"twice")),
        (),
    ):
        letter = read_letter(record(*headers))
        assert (letter.convention, letter.origin, letter.failure.kind) == (None, None, NO_ERROR)
        assert own_headers(record(*headers)) == headers


def test_the_last_failure_of_a_record_counts_and_all_programs_headers_leave() -> None:
    failed = record(*OWN, *dead_letters.spring("first"), *dead_letters.connect("second"))
    letter = read_letter(failed)

    assert (letter.convention, letter.origin) == (
        "Kafka Connect",
        Origin("second", 1, 42, None),
    )
    assert own_headers(failed) == OWN


def test_only_headers_of_programs_that_left_a_sign_are_theirs() -> None:
    own = (("x-original-url", b"/a"), ("dead-letter-box", b"b"))

    assert own_headers(record(*own, *dead_letters.connect())) == own
    assert own_headers(record(*own)) == own


def test_notes_of_an_earlier_redrive_are_counted_and_leave() -> None:
    notes = ((REDRIVEN_FROM, b"bad-0@1"), (REDRIVEN_TIMES, b"2"))
    for headers in (
        (*OWN, *notes, *dead_letters.connect()),
        (*notes, *dead_letters.pipeline()),
    ):
        letter = read_letter(record(*headers))
        assert letter.redriven_times == 2
        assert letter.origin is not None
        assert own_headers(record(*headers)) in (OWN, ())


@pytest.mark.parametrize(
    "value", [None, b"", b"-1", b"x", b"\xff" * 4, b"1" * 40, "²".encode(), b"1.5"]
)
def test_numbers_that_are_none_are_not_known(value: bytes | None) -> None:
    headers = (("__connect.errors.topic", b"orders"), ("__connect.errors.partition", value))
    assert read_letter(record(*headers)).origin == Origin("orders", None, None, None)
    headers = (("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-original-offset", value))
    origin = read_letter(record(*headers)).origin
    assert origin == Origin("orders", None, None, None)


def test_letters_are_grouped_by_exception_else_by_message_without_its_variable_parts() -> None:
    assert Failure(ERROR, "a", "").kind == Failure(ERROR, "b", "").kind == ERROR
    same = ("no item 4711 in 0xAF", "no item 5 in 0x1")
    assert {Failure("", text, "").kind for text in same} == {"no item # in #"}
    assert Failure("", "line\nmore", "").kind == "line"
    assert Failure("", "  ", "").kind == NO_ERROR
    assert len(Failure("", "x" * 10_000, "").kind) == 200


def test_a_letter_of_a_share_group_without_a_copy_lacks_its_content() -> None:
    headers = dead_letters.share_group()
    empty = FetchedRecord("bad", 0, 9, 1, None, None, headers)

    assert read_letter(empty).lacks_content
    assert not read_letter(empty._replace(key=b"k")).lacks_content  # a tombstone that was copied
    assert not read_letter(empty._replace(headers=dead_letters.connect())).lacks_content
