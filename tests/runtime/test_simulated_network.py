"""The simulated network does what each of its faults says, and nothing else."""

import pytest

from raftka.runtime.interfaces import FileSpan, Runtime
from raftka.runtime.simulated.network import (
    KEEPALIVE_AGAIN_S,
    KEEPALIVE_IDLE_S,
    KEEPALIVE_TRIES,
    PIPE_BYTES,
    SILENCE_S,
)
from raftka.runtime.simulated.world import World
from tests.runtime.talk import Talker, call, serve


def is_a_runtime(runtime: Runtime) -> None:
    """For mypy: a simulated node has the whole door."""


def pair(world: World, kind: type[Talker] = Talker) -> tuple[Talker, Talker]:
    """A client on `a` and what `b` has accepted, connected."""
    accepted = serve(world.node("b"), kind=kind)
    client = call(world.node("a"), "b")
    assert world.run(lambda: bool(accepted) and client.transport is not None, at_most_s=1)
    return client, accepted[0]


def test_a_node_is_a_runtime() -> None:
    is_a_runtime(World(1).node("a"))


def test_bytes_come_in_order_in_pieces_and_late() -> None:
    pieces = 0
    for seed in range(10):
        world = World(seed)
        client, server = pair(world)
        began = world.now
        for i in range(50):
            client.say(bytes([i]) * 100)
        client.say(bytes(200_000))

        assert world.run(lambda: len(server.heard) == 205_000, at_most_s=5)  # noqa: B023

        assert bytes(server.heard[:5000]) == b"".join(bytes([i]) * 100 for i in range(50))
        assert server.times[0] >= began + world.network.default_delay_s[0]
        pieces += len(server.times)
    assert pieces > 10 * 5


def test_what_is_heard_is_gone_after_its_turn() -> None:
    class Keeper(Talker):
        kept: memoryview

        def receive(self, view: memoryview) -> None:
            super().receive(view)
            self.kept = view

    with World(1) as world:
        client, server = pair(world, Keeper)
        client.say(b"x" * 10)
        world.run(lambda: bool(server.heard))

        assert isinstance(server, Keeper)
        assert server.heard == b"x" * 10
        assert bytes(server.kept) == b"\xdd" * 10


def test_bytes_are_put_where_the_connection_wants_them_but_not_always() -> None:
    class Roomy(Talker):
        own = 0

        def room(self) -> memoryview | None:
            self.place = memoryview(bytearray(64))
            return self.place

        def receive(self, view: memoryview) -> None:
            super().receive(view)
            self.own += view.obj is self.place.obj

    world = World(3)
    client, server = pair(world, Roomy)
    sent = bytes(range(256)) * 200
    client.say(sent)
    assert world.run(lambda: len(server.heard) == len(sent), at_most_s=1)

    assert bytes(server.heard) == sent
    assert isinstance(server, Roomy)
    assert 0 < server.own < len(server.times)


def test_a_reader_that_holds_back_is_felt_by_the_writer() -> None:
    world = World(1)
    client, server = pair(world)
    assert server.transport is not None
    server.transport.hold_reading(True)
    asked = client.asked
    client.say(bytes(3 * PIPE_BYTES))
    world.run(world.now + 1)
    client.say(b"more")
    world.run(world.now + 10)
    assert not server.heard
    assert client.output == [b"more"]  # not asked for before the first has left
    assert client.asked == asked + 1

    server.transport.hold_reading(False)
    assert world.run(lambda: len(server.heard) == 3 * PIPE_BYTES + 4, at_most_s=1)
    assert server.heard.endswith(b"more")


def test_closing_sends_what_was_said_and_the_other_side_may_still_answer() -> None:
    world = World(1)
    client, server = pair(world)
    assert client.transport is not None
    client.say(b"last words")
    client.transport.close("done")
    world.run(lambda: client.reason is not None)
    world.run(world.now + 1)

    assert (client.reason, client.closed_times) == ("done", 1)
    assert server.heard == b"last words"
    assert server.end
    assert server.reason is None  # closing is up to it

    server.say(b"too late")  # the other side is not half but wholly closed: its kernel says so
    assert world.run(lambda: server.reason is not None, at_most_s=1)
    assert server.reason == "connection reset by peer"


def test_a_file_leaves_as_a_span_and_a_file_too_short_closes() -> None:
    world = World(1)
    client, server = pair(world)
    files = client.node.files
    file = files.open("segment", create=True)
    file.append([b"0123456789"])

    client.say(b"<", FileSpan(file, 2, 5), b">")
    assert world.run(lambda: server.heard == b"<23456>", at_most_s=1)

    client.say(FileSpan(file, 8, 5))
    assert world.run(lambda: client.reason is not None, at_most_s=1)
    assert client.reason == "file shorter than promised"


def test_a_one_way_cut_stops_one_way_and_what_was_said_comes_after_healing() -> None:
    world = World(1)
    client, server = pair(world)
    world.network.cut("a", "b", one_way=True)
    client.say(b"into the cut")
    server.say(b"against it")
    world.run(world.now + 3)
    assert not server.heard
    assert client.heard == b"against it"

    client.say(b", later")
    world.network.heal()
    assert world.run(lambda: server.heard == b"into the cut, later", at_most_s=1)
    assert client.reason is server.reason is None


def test_what_is_under_way_as_a_link_heals_does_not_overtake_what_has_waited() -> None:
    world = World(1)
    client, server = pair(world)
    world.network.cut("a", "b")
    client.say(b"first, ")
    world.run(world.now + 0.1)
    world.network.delay("a", "b", 0.5)
    client.say(b"second")
    world.run(world.now + 0.1)
    world.network.heal()

    assert world.run(lambda: len(server.heard) == len(b"first, second"), at_most_s=2)
    assert server.heard == b"first, second"


def test_a_cut_both_ways_and_connecting_into_it() -> None:
    world = World(1)
    client, server = pair(world)
    world.network.cut("a", "b")
    client.say(b"x")
    server.say(b"y")
    again = call(client.node, "b")
    world.run(world.now + 2.5)
    assert not client.heard
    assert not server.heard
    assert again.transport is None

    world.network.heal()
    assert world.run(lambda: again.transport is not None, at_most_s=5)  # the next SYN
    assert bytes(client.heard + server.heard) == b"yx"


def test_a_cut_that_lasts_ends_the_connection() -> None:
    world = World(1)
    client, server = pair(world)
    world.network.cut("a", "b")
    server.say(b"x")

    assert world.run(
        lambda: client.reason is not None,
        at_most_s=KEEPALIVE_IDLE_S + KEEPALIVE_TRIES * KEEPALIVE_AGAIN_S,
    )

    assert client.reason == "connection timed out"
    assert server.reason is None  # who was connected to has more patience
    assert world.run(lambda: server.reason is not None, at_most_s=SILENCE_S + 1)


def test_who_connected_notices_that_the_machine_is_another_one_than_it_was() -> None:
    """Nobody has said a word since, so no packet told."""
    world = World(1)
    client, _ = pair(world)
    world.kill("b", power_loss=True)
    world.run(world.now + 0.1)
    world.node("b")

    assert world.run(lambda: client.reason is not None, at_most_s=KEEPALIVE_IDLE_S + 1)
    assert client.reason == "connection reset by peer"


def test_loss_makes_late_and_delay_makes_later() -> None:
    def taken(loss: float, delay: float) -> float:
        world = World(5)
        client, server = pair(world)
        world.network.loss("a", "b", loss)
        world.network.delay("a", "b", delay, delay)
        began = world.now
        for i in range(20):
            client.say(b"x" * 10)
            assert world.run(lambda: len(server.heard) == (i + 1) * 10)  # noqa: B023
        return world.now - began

    assert 0.2 < taken(0, 0.01) < 0.25
    assert taken(0.3, 0.01) > 1.0
    assert taken(0, 0.5) > 10.0


def test_a_killed_node_resets_and_refuses() -> None:
    world = World(1)
    client, server = pair(world)
    server.say(b"said before")
    world.run(world.now)  # taken, under way
    world.kill("b")
    again = call(client.node, "b")

    assert world.run(lambda: client.reason is not None and again.reason is not None, at_most_s=1)

    assert client.heard == b"said before"
    assert client.reason == "connection reset by peer"
    assert again.reason == "connection refused"
    assert again.closed_times == client.closed_times == 1
    assert server.reason is None  # it is dead, it hears nothing


def test_a_node_without_power_is_silent_until_it_is_back() -> None:
    world = World(1)
    client, _ = pair(world)
    world.kill("b", power_loss=True)
    client.say(b"hello?")
    again = call(client.node, "b")
    world.run(world.now + 2.5)
    assert client.reason is None
    assert again.reason is None

    accepted = serve(world.node("b"))
    assert world.run(lambda: client.reason is not None, at_most_s=1)
    assert client.reason == "connection reset by peer"  # the new kernel knows nothing of it
    assert world.run(lambda: again.transport is not None, at_most_s=10)
    assert len(accepted) == 1


def test_connecting_gives_up() -> None:
    world = World(1)
    pair(world)
    world.kill("b", power_loss=True)
    again = call(world.node("c"), "b")

    assert world.run(lambda: again.reason is not None, at_most_s=200)
    assert again.reason == "connecting timed out"


def test_a_paused_node_accepts_in_its_kernel_and_answers_when_it_goes_on() -> None:
    world = World(1)
    client, server = pair(world)
    world.pause("b")
    client.say(b"are you there")
    again = call(client.node, "b")
    world.run(world.now + 5)
    assert again.transport is not None
    assert not server.heard

    client.say(bytes(2 * PIPE_BYTES))
    world.run(world.now + 5)
    client.say(b"more")
    world.run(world.now + 5)
    assert client.output == [b"more"]

    world.resume("b")
    assert world.run(lambda: server.heard.endswith(b"more"), at_most_s=1)


def test_names_ports_and_refusals() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b")
    on_a = serve(a, 1000)
    on_b = serve(b, 2000, host="127.0.0.1")
    with pytest.raises(OSError, match="1000"):
        serve(a, 1000)
    with pytest.raises(OSError, match="2000"):
        serve(a, 2000, host="127.0.0.1")
    free = a.network.listen("127.0.0.1", 0, lambda: None)
    talkers = [
        call(b, "a", 1000),
        call(b, "localhost", 2000),
        call(b, "127.0.0.1", 1000),
        call(b, "b", 2000),
    ]
    nobody, refused, unknown = call(b, "a", 3000), call(b, "a", free.port), call(b, "z", 1)
    world.run(5.0)

    assert [t.reason for t in talkers] == [None] * 4
    assert len(on_a) == len(on_b) == 2
    assert (nobody.reason, refused.reason, unknown.reason) == (
        "connection refused",
        "connection reset by peer",
        "no such host: z",
    )

    free.close()
    closed = call(b, "a", free.port)
    world.run(6.0)
    assert closed.reason == "connection refused"


def test_closing_before_it_is_open_is_heard_once() -> None:
    world = World(1)
    accepted = serve(world.node("b"))
    node = world.node("a")
    client = call(node, "b")
    world.run(world.now + world.network.default_delay_s[0] * 1.5)
    world.kill("a")
    world.run(world.now + 1)

    assert client.reason is None
    assert all(server.reason == "connection reset by peer" for server in accepted)
