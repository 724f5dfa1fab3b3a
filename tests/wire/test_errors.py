"""The error codes are Kafka's, and errors say what they are."""

import gc
import warnings

from raftka.limits import REQUEST_BYTES
from raftka.wire.codec import MAX_STRING
from raftka.wire.errors import Code, KafkaError, ProtocolError

with warnings.catch_warnings():
    # it reads its schemas with importlib.resources.read_text
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.errors


THEIR_OWN_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}


def test_codes_are_those_of_kafka_python() -> None:
    theirs = {
        code: cls
        for code, cls in kafka.errors.kafka_errors.items()
        if code is not None and code >= -1
    }
    assert len(theirs) > 100
    for code, cls in theirs.items():
        assert Code(code).name == THEIR_OWN_NAMES.get(code, cls.message)
    assert [code.value for code in Code] == list(range(-1, 137))


def test_retriable_ones_are_those_of_kafka_python() -> None:
    theirs = {
        code
        for code, cls in kafka.errors.kafka_errors.items()
        if code and code > 0 and cls.retriable
    }
    ours = {code for code in Code if code.retriable}
    # retriable in Apache's; not known there, or not so
    assert ours - theirs == {Code.CORRUPT_MESSAGE, Code.SHARE_SESSION_LIMIT_REACHED}
    assert theirs <= ours


def test_errors_say_what_they_are() -> None:
    assert str(KafkaError(Code.NOT_CONTROLLER)) == "NOT_CONTROLLER"
    error = KafkaError(Code.INVALID_REQUEST, "no name")
    assert (str(error), error.code, error.message) == ("INVALID_REQUEST: no name", 42, "no name")
    assert ProtocolError("cut").limit is None
    assert ProtocolError("large", REQUEST_BYTES).limit is REQUEST_BYTES


def test_a_text_is_one_that_can_be_sent() -> None:
    error = KafkaError(Code.INVALID_REQUEST, "\N{GRINNING FACE}" * 32767)

    assert error.message is not None
    assert len(error.message.encode()) <= MAX_STRING


def test_an_error_is_small_for_a_request_may_have_100000_of_them() -> None:
    error = KafkaError(Code.GROUP_ID_NOT_FOUND, "Group g not found.")

    assert {type(each) for each in gc.get_referents(error)} <= {type, Code, str, tuple}
    assert not error.args
