"""The history that several writers share: its lines stand in the order in which things happened,
and what is read is told apart.
"""

import multiprocessing
import time
from pathlib import Path

from raftka.chaos.history import OK, PRODUCE, load
from raftka.chaos.live.recorder import PROCESSES_EACH, Recorder, payload, polled, value_of

WRITERS, EACH = 3, 200


def write(path: Path, began: float, worker: int) -> None:
    recorder = Recorder(path, began, worker)
    process = recorder.process()
    for _ in range(EACH):
        value = next(recorder.values)
        recorder.invoke(process, PRODUCE, sends=[["t-0", value, None]])
        recorder.end(process, OK, sends=[["t-0", value, value]])


def test_processes_write_one_history(tmp_path: Path) -> None:
    path, began = tmp_path / "history.jsonl", time.monotonic()
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write, args=(path, began, worker))
        for worker in range(1, WRITERS + 1)
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join()

    with path.open() as lines:
        history = load(lines)

    assert len(history.operations) == WRITERS * EACH
    assert {each.process for each in history.operations} == {
        worker * PROCESSES_EACH for worker in range(1, WRITERS + 1)
    }
    assert all(each.outcome == OK and each.ended > each.began for each in history.operations)
    assert len({each.sends[0][1] for each in history.operations}) == WRITERS * EACH


def test_a_foreign_value_is_a_phantom() -> None:
    assert value_of(payload(17, 100)) == 17
    assert value_of(b"\xff17 x") == repr(b"\xff17 x")
    assert value_of(None) == "None"
    assert polled("t", [(0, 5, payload(1, 0)), (1, 7, payload(2, 3)), (0, 6, payload(3, 1))]) == {
        "t-0": [(5, 1), (6, 3)],
        "t-1": [(7, 2)],
    }
