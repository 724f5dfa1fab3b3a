"""Directed simulations of requests that come in one piece, or are carried out in several: see
directed.py.
"""

from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import produced
from tests.broker.stage import Stage, decoded
from tests.kit.broker.early_answers import ask_behind_an_early_answer
from tests.kit.broker.sliced_requests import PARTITIONS, busy, sent
from tests.kit.broker.transactions import Client
from tests.kit.broker.uniform_produces import give, many, one, prepared, told
from tests.mutants.directed import finds


@finds
def alike_batches_have_any_crc() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, server = prepared(stage)
        sent = many(3)
        give(stage, server, b"".join([sent[0], sent[1][:-5] + b"!" + sent[1][-4:], sent[2]]))
        codes = [produced(decoded(PRODUCE, 12, frame)).error_code for frame in told(stage, wire)[0]]
        assert codes == [0, 2, 0], "a damaged record is acknowledged"


@finds
def alike_requests_begin_anywhere() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, server = prepared(stage)
        inner = b"".join(many(3))
        outer = one(500, value=inner)
        at = outer.index(inner)
        for piece in (outer[:at], inner, outer[at + len(inner) :]):
            give(stage, server, piece)
        told(stage, wire)
        assert stage.partition("t").log.end_offset == 6, (
            "the value of a record is taken for requests"
        )


@finds
def requests_lie_in_the_receive_buffer() -> None:
    with Stage() as stage, busy():
        stage.create("t", PARTITIONS)
        client = Client(stage)
        client.init()
        for partitions in range(7, 16):  # it is interrupted while it asks, not before
            assert {code for _, code in sent(client, 0, partitions)} == {0}, (
                "a partition of a transactional request is refused"
            )
            assert client.end() == 0
            client.init()


@finds
def interrupted_handlers_take_a_second_place() -> None:
    with Stage() as stage:
        ask_behind_an_early_answer(stage)
