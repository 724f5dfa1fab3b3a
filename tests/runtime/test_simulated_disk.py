"""The simulated disk loses, tears and refuses what it says, and keeps everything else."""

import errno
from collections.abc import Callable

import pytest

from raftka.runtime.interfaces import File, Files
from raftka.runtime.simulated.tasks import NodeStopped
from raftka.runtime.simulated.world import Node, World


def flushed(world: World, node: Node, *files: File) -> OSError | None:
    results: list[OSError | None] = []
    node.files.flush(files, results.append)
    assert results == []  # in a later turn
    assert world.run(lambda: bool(results), at_most_s=60)
    return results[0]


def after_power_loss(seed: int, write: Callable[[World, Node], None]) -> World:
    world = World(seed)
    node = world.node("a")
    node.files.make_directory("data")
    write(world, node)
    world.kill("a", power_loss=True)
    return world


def content(world: World, path: str = "data/log") -> bytes:
    return bytes(world.disk("a").file(path).content)


@pytest.mark.parametrize(
    "use",
    [
        lambda files, file: file.append([b"x"]),
        lambda files, file: file.read(0, 1),
        lambda files, file: file.write(0, b"x"),
        lambda files, file: file.truncate(0),
        lambda files, file: file.sync(),
        lambda files, file: files.flush([file], lambda error: None),
    ],
    ids=["append", "read", "write", "truncate", "sync", "flush"],
)
def test_a_closed_file_is_of_no_use(use: Callable[[Files, File], None]) -> None:
    files = World(1).node("a").files
    files.make_directory("data")
    file = files.open("data/log", create=True)
    file.append([b"x"])
    file.close()

    with pytest.raises(ValueError, match="data/log is closed"):
        use(files, file)


def test_files_read_what_was_written() -> None:
    node = World(1).node("a")
    files = node.files
    files.make_directory("data/t-0")
    file = files.open("data/t-0/log", create=True)
    file.append([b"01234", memoryview(b"567"), bytearray(b"89")])
    file.write(2, b"xy")
    assert (file.read(1, 4), file.read(8, 10), file.size()) == (b"1xy4", b"89", 10)
    file.truncate(5)
    assert files.read("data/t-0/log") == b"01xy4"
    file.write(7, b"z")
    assert file.read(0, 9) == b"01xy4\0\0z"

    files.replace("data/meta", b"1")
    files.replace("data/meta", b"22")
    files.rename("data/t-0", "data/t-1")
    assert files.list("data") == ["meta", "t-1"]
    assert files.exists("data/t-1/log")
    assert not files.exists("data/t-0/log")
    files.remove("data/t-1")
    assert file.read(0, 2) == b"01"  # who has it open keeps it
    assert (files.list("data"), files.read("data/meta")) == (["meta"], b"22")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda files: files.open("no"), errno.ENOENT),
        (lambda files: files.open("no/log", create=True), errno.ENOENT),
        (lambda files: files.open("data"), errno.EISDIR),
        (lambda files: files.read("no"), errno.ENOENT),
        (lambda files: files.list("no"), errno.ENOENT),
        (lambda files: files.list("file"), errno.ENOTDIR),
        (lambda files: files.remove("no"), errno.ENOENT),
        (lambda files: files.rename("no", "yes"), errno.ENOENT),
        (lambda files: files.make_directory("file/x"), errno.ENOTDIR),
        (lambda files: files.rename("file", "data"), errno.ENOTEMPTY),
    ],
)
def test_errors_are_those_of_the_real_thing(call: Callable[..., object], code: int) -> None:
    files = World(1).node("a").files
    files.make_directory("data/x")
    files.replace("file", b"")

    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(files)

    assert caught.value.errno == code


def test_a_kill_keeps_what_the_kernel_has() -> None:
    world = World(1)
    node = world.node("a")
    node.files.open("log", create=True).append([b"not flushed"])
    world.kill("a")

    assert world.node("a").files.read("log") == b"not flushed"


def test_power_loss_keeps_what_was_flushed_and_a_random_torn_part_of_the_rest() -> None:
    ends: set[int] = set()
    for seed in range(60):

        def write(world: World, node: Node) -> None:
            file = node.files.open("data/log", create=True)
            node.files.sync_directory("data")
            file.append([b"a" * 100])
            assert flushed(world, node, file) is None
            file.append([b"b" * 100])
            file.append([b"c" * 100])

        kept = content(after_power_loss(seed, write))

        whole = b"a" * 100 + b"b" * 100 + b"c" * 100
        # a torn end may be zeros
        kept = kept.rstrip(b"\0") + whole[len(kept.rstrip(b"\0")) : len(kept)]
        assert kept == whole[: len(kept)]
        assert len(kept) >= 100
        ends.add(len(kept))
    assert {100, 300} <= ends or len(ends) > 20
    assert any(end % 100 for end in ends), "no write was torn"


def test_some_torn_writes_are_zeros() -> None:
    def write(_: World, node: Node) -> None:
        node.files.replace("data/log", b"")
        node.files.open("data/log").append([b"b" * 100])

    assert any(set(content(after_power_loss(seed, write))) == {0} for seed in range(60))


def test_what_is_overwritten_and_cut_comes_back() -> None:
    def write(_: World, node: Node) -> None:
        node.files.replace("data/log", b"0123456789")
        file = node.files.open("data/log")
        file.write(2, b"xyz")
        file.truncate(4)
        file.write(6, b"ab")
        node.world.disk("a").keeps_nothing = True

    assert content(after_power_loss(1, write)) == b"0123456789"


def test_a_flush_covers_what_was_written_before_it_began() -> None:
    world = World(1)
    node = world.node("a")
    world.disk("a").keeps_nothing = True
    node.files.replace("log", b"")
    file = node.files.open("log")
    file.append([b"before"])
    done: list[OSError | None] = []
    node.files.flush([file], done.append)
    file.append([b"after"])
    assert world.run(lambda: bool(done))
    world.kill("a", power_loss=True)

    assert content(world, "log") == b"before"


def test_power_that_goes_during_a_flush_leaves_it_undone() -> None:
    world = World(1)
    node = world.node("a")
    world.disk("a").keeps_nothing = True
    node.files.replace("log", b"")
    file = node.files.open("log")
    file.append([b"lost"])
    done: list[OSError | None] = []
    node.files.flush([file], done.append)
    world.kill("a", power_loss=True)
    node = world.node("a")
    file = node.files.open("log")
    file.append([b"new"])
    world.disk("a").failing_syncs = 1
    world.run(1.0)
    assert (content(world, "log"), done) == (b"new", [])
    assert world.disk("a").failing_syncs == 1  # that flush never ended, not even with an error

    world.kill("a", power_loss=True)
    assert content(world, "log") == b""


def test_names_are_durable_after_sync_directory_only() -> None:
    def write(world: World, node: Node) -> None:
        world.disk("a").keeps_nothing = True
        files = node.files
        for name in ("kept", "old", "gone"):
            files.open(f"data/{name}", create=True)
        files.sync_directory("data")
        # a flushed file without a name is lost as well
        flushed(world, node, files.open("data/new", create=True))
        files.rename("data/old", "data/renamed")
        files.remove("data/gone")

    assert sorted(after_power_loss(1, write).disk("a").directory("data").entries) == [
        "gone",
        "kept",
        "old",
    ]


def test_replace_is_durable_at_once() -> None:
    def write(world: World, node: Node) -> None:
        world.disk("a").keeps_nothing = True
        node.files.replace("data/log", b"one")
        node.files.replace("data/log", b"two")

    assert content(after_power_loss(1, write)) == b"two"


def test_a_full_disk_takes_what_fits_and_is_well_again_with_more_room() -> None:
    world = World(1)
    node = world.node("a")
    file = node.files.open("log", create=True)
    world.disk("a").room_bytes = 8
    file.append([b"01234"])
    with pytest.raises(OSError, match="ENOSPC"):
        file.append([b"567", b"89"])
    assert file.read(0, 99) == b"01234567"  # some of it was written
    file.write(0, b"xx")  # needs no room
    with pytest.raises(OSError, match="ENOSPC"):
        node.files.replace("meta", b"1")
    assert not node.files.exists("meta")

    world.disk("a").room_bytes = None
    file.append([b"89"])
    assert file.size() == 10


def test_a_failed_flush_is_reported_once_and_its_pages_are_lost_though_a_later_one_succeeds() -> (
    None
):
    world = World(1)
    node = world.node("a")
    node.files.replace("log", b"")
    file = node.files.open("log")
    file.append([b"good"])
    assert flushed(world, node, file) is None
    file.append([b"bad!"])
    world.disk("a").failing_syncs = 1
    error = flushed(world, node, file)
    assert error is not None
    assert error.errno == errno.EIO
    file.append([b"late"])
    assert flushed(world, node, file) is None
    assert file.read(0, 99) == b"goodbad!late"
    world.kill("a", power_loss=True)

    assert content(world, "log") == b"good\0\0\0\0late"


@pytest.mark.parametrize("flush", [True, False])
def test_pages_of_a_failed_flush_that_are_written_anew_are_kept_by_the_next_flush_alone(
    flush: bool,
) -> None:
    world = World(1)
    node = world.node("a")
    world.disk("a").keeps_nothing = True
    node.files.replace("log", b"good")
    file = node.files.open("log")
    file.append([b"bad!"])
    world.disk("a").failing_syncs = 1
    assert flushed(world, node, file) is not None
    file.write(2, b"odba")
    if flush:
        assert flushed(world, node, file) is None
    world.kill("a", power_loss=True)

    assert content(world, "log") == (b"goodba" if flush else b"good")


def test_a_torn_write_leaves_no_zeros_in_what_was_there() -> None:
    def write(world: World, node: Node) -> None:
        node.files.replace("data/log", b"a" * 40)
        node.files.open("data/log").write(0, b"b" * 80)

    found = [content(after_power_loss(seed, write)) for seed in range(60)]

    assert all(set(each[:40]) <= set(b"ab") for each in found)
    assert any(0 in each[40:] for each in found)


def test_syncs_in_place_fail_too_and_take_time() -> None:
    world = World(1)
    node = world.node("a")
    file = node.files.open("log", create=True)
    for act in (
        file.sync,
        lambda: node.files.sync_directory("."),
        lambda: node.files.replace("x", b""),
    ):
        world.disk("a").failing_syncs = 1
        with pytest.raises(OSError, match="EIO"):
            act()
    world.disk("a").failing_writes = 1
    with pytest.raises(OSError, match="EIO"):
        file.append([b"x"])

    world.disk("a").sync_s = (0.5, 0.5)
    times: list[float] = []
    for when, act in (
        (1.0, file.sync),
        (3.0, lambda: node.files.sync_directory(".")),
        (5.0, lambda: node.files.replace("x", b"")),
    ):
        node.clock.call_at(when, act)
        node.clock.call_at(when + 0.1, lambda: times.append(world.now))
    world.run(9.0)
    # the node did nothing else meanwhile; replace syncs twice
    assert times == pytest.approx([1.5, 3.5, 6.0], abs=0.01)


def test_a_slow_disk_flushes_late() -> None:
    world = World(1)
    node = world.node("a")
    file = node.files.open("log", create=True)
    world.disk("a").sync_s = (2.0, 2.0)
    flushed(world, node, file)
    assert 2.0 <= world.now < 2.01


def test_a_flipped_bit() -> None:
    world = World(1)
    node = world.node("a")
    node.files.replace("log", b"abc")
    world.disk("a").flip("log", 1)
    assert node.files.read("log") == b"acc"


def test_a_lock_is_held_by_a_living_node_alone() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", disk="a")  # two nodes on one directory
    release = a.files.lock(".lock")
    with pytest.raises(BlockingIOError):
        b.files.lock(".lock")
    release()
    b.files.lock(".lock")
    world.kill("b")
    a.files.lock(".lock")


def test_a_dead_node_writes_nothing() -> None:
    world = World(1)
    node = world.node("a")
    file = node.files.open("log", create=True)
    world.kill("a")
    with pytest.raises(NodeStopped):
        file.append([b"x"])
    assert content(world, "log") == b""
