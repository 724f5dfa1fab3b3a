"""Lakes in an S3 store, which moto plays in a process of its own: writers at the same moment,
batches that are done again, parts. No Spark.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("deltalake", reason="needs raftka[pipeline]")
pytest.importorskip(
    "moto.server",
    reason="needs moto[server], which plays the store: ./run setup pipeline installs it",
)

from pyarrow.fs import FileSelector

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.lake import upsert
from raftka.pipeline.lake.files import files_of, names_in, write_files
from raftka.pipeline.lake.options import READ, WRITTEN, Lake, lake_options
from raftka.pipeline.lake.read import plan, read
from raftka.pipeline.lake.table import Attempt, Done, commit, demanded, prepare

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
WAIT_S = 60


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + WAIT_S
    try:
        while True:
            try:
                with urllib.request.urlopen(urllib.request.Request(f"{url}/lake", method="PUT")):
                    break
            except (urllib.error.URLError, ConnectionError):
                assert server.poll() is None, "moto ended"
                assert time.monotonic() < deadline, "moto does not answer"
                time.sleep(0.05)
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def options(
    store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    storage = {
        "aws_endpoint_url": store,
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
    }
    return {
        "path": f"s3://lake/{request.node.name}",
        **{f"storage.{name}": value for name, value in storage.items()},
    }


def lake_of(options: Mapping[str, str], **more: str) -> Lake:
    return lake_options({**options, **more}, known=WRITTEN)


def tried(lake: Lake, query: str, batch: int, ids: list[int], run: str = "run") -> list[Done]:
    partition_by, attempt = prepare(lake, SCHEMA), Attempt(query, batch, run, 0)
    rows = pa.RecordBatch.from_pylist(
        [{"id": each, "day": f"d{each % 2}"} for each in ids], schema=SCHEMA
    )
    return [Done(attempt, write_files(lake, SCHEMA, partition_by, [rows], attempt.stem))]


def ids(options: Mapping[str, str], **more: str) -> list[int]:
    lake = lake_options({**options, **more}, known=READ)
    planned = plan(lake, ["id"])
    return sorted(
        each
        for files in planned.tasks
        for batch in read(lake, planned, files)
        for each in batch.column("id").to_pylist()
    )


def test_a_batch_that_is_done_again_counts_once_and_leaves_no_files(
    options: dict[str, str],
) -> None:
    lake = lake_of(options, partitionBy="day")
    tried(lake, "q", 0, [7, 8])  # a driver that died before its commit
    for run in ("second", "third"):
        commit(lake, SCHEMA, tried(lake, "q", 0, [1, 2], run))

    assert (ids(options), ids(options, where="day = 'd1'")) == ([1, 2], [1])
    assert len(names_in(lake, "day=d0") + names_in(lake, "day=d1")) == 2


def test_rows_change_by_key_and_no_staged_files_are_left(options: dict[str, str]) -> None:
    lake = lake_of(options, key="id")
    upsert.prepare(lake, SCHEMA)

    def staged(batch: int, rows: list[tuple[int, str]]) -> list[Done]:
        told = pa.RecordBatch.from_pylist(
            [{"id": each, "day": day} for each, day in rows], schema=SCHEMA
        )
        return [upsert.stage(lake, SCHEMA, [told], Attempt("q", batch, "run"))]

    staged(0, [(9, "of a driver that died")])
    for batch, rows in (
        (0, [(1, "a"), (2, "b")]),
        (0, [(1, "a"), (2, "b")]),
        (1, [(2, "c"), (3, "d")]),
    ):
        upsert.commit(lake, SCHEMA, staged(batch, rows))

    assert sorted(demanded(lake).to_pyarrow_table().to_pydict()["day"]) == ["a", "c", "d"]
    assert (
        files_of(lake).get_file_info(
            FileSelector(upsert.STAGE, recursive=True, allow_not_found=True)
        )
        == []
    )


def test_writers_at_the_same_moment_lose_nothing(options: dict[str, str]) -> None:
    """Each entry of the log is put on the condition that it is not there."""
    lake, failures = lake_of(options), []
    commit(lake, SCHEMA, tried(lake, "first", 0, [0]))

    def write(query: int) -> None:
        try:
            for batch in range(4):
                commit(lake, SCHEMA, tried(lake, f"q{query}", batch, [100 * query + batch]))
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(query,)) for query in range(1, 4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()

    assert failures == []
    assert ids(options) == [
        0,
        *(100 * query + batch for query in range(1, 4) for batch in range(4)),
    ]
    assert demanded(lake).version() == 13


def test_a_bucket_that_is_not_there_is_told(options: dict[str, str]) -> None:
    with pytest.raises(PipelineError, match=r"(?s)the lake s3://nowhere/t: .*NoSuchBucket"):
        prepare(lake_of(options, path="s3://nowhere/t"), SCHEMA)
