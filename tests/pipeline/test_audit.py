"""The audit on defects that were planted: each kind is found, each one of them listed, and nothing
else.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

import pyarrow as pa

from raftka.cli.commands import root
from raftka.client.blocking.producer import Producer
from raftka.pipeline.audit import KINDS, compare
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.ledger import Split, read_split, splits
from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

Line = tuple[str, int, bool]


def ledger(path: Path, lines: Iterable[Line], end: str = "\n") -> str:
    path.write_text(
        "\n".join(
            json.dumps({"producer": producer, "seq": seq, "acked": acked})
            for producer, seq, acked in lines
        )
        + end
    )
    return str(path)


def judged(
    said: list[tuple[int, bool]], there: list[tuple[int | None, int, int]]
) -> dict[str, list[Any]]:
    """Return the errors of one producer; `there`: number, partition and offset."""
    left = pa.table(
        {
            "producer": ["p"] * len(said),
            "seq": pa.array([s for s, _ in said], pa.int64()),
            "acked": pa.array([a for _, a in said], pa.bool_()),
        }
    )
    places = pa.array([(partition << 48) + offset for _, partition, offset in there], pa.int64())
    right = pa.table(
        {
            "producer": ["p"] * len(there),
            "seq": pa.array([s for s, _, _ in there], pa.int64()),
            "place": places,
        }
    )
    found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for row in compare(left, right).to_pylist():
        if row["kind"] in found:
            assert row["records"] == 1
            found[row["kind"]].append(row["seq"])
    return {kind: seqs for kind, seqs in found.items() if seqs}


def acked(*seqs: int) -> list[tuple[int, bool]]:
    return [(seq, True) for seq in seqs]


@pytest.mark.parametrize(
    ("said", "there", "wrong"),
    [
        (acked(0, 1), [(0, 0, 0), (1, 0, 1)], {}),
        (acked(0, 1), [(1, 0, 1)], {"lost": [0]}),
        (acked(0, 1), [], {"lost": [0, 1]}),
        (acked(0), [(0, 0, 0), (0, 0, 1), (0, 1, 0)], {"duplicated": [0]}),
        (acked(0), [(0, 0, 0), (9, 0, 1)], {"phantom": [9]}),
        ([], [(3, 0, 0), (4, 0, 1)], {"phantom": [3, 4]}),
        (acked(0), [(0, 0, 0), (None, 0, 1)], {"phantom": [None]}),
        ([(0, False)], [], {}),
        ([(0, False)], [(0, 0, 0)], {}),
        ([(0, False)], [(0, 0, 0), (0, 0, 1)], {"duplicated": [0]}),
        ([(0, False), (0, True)], [], {"lost": [0]}),
        (acked(0, 1, 2), [(1, 0, 0), (0, 0, 1), (2, 0, 2)], {"reordered": [0]}),
        (acked(0, 1, 2, 3), [(3, 0, 0), (0, 0, 1), (1, 0, 2), (2, 0, 3)], {"reordered": [0, 1, 2]}),
        (acked(0, 1), [(1, 0, 0), (0, 1, 1)], {}),  # of another partition: no order
        # a copy that comes late is no other order
        (acked(0, 1), [(0, 0, 0), (1, 0, 1), (0, 0, 2)], {"duplicated": [0]}),
    ],
)
def test_each_kind_of_defect_is_distinguished(
    said: list[tuple[int, bool]], there: list[Any], wrong: dict[str, list[Any]]
) -> None:
    assert judged(said, there) == wrong


@pytest.mark.parametrize("size", [1, 7, 40, 41, 42, 10_000])
@pytest.mark.parametrize("end", ["\n", "", '\n{"producer": "p", "se', "\n\n"])
def test_a_ledger_in_any_pieces_has_each_line_once(tmp_path: Path, size: int, end: str) -> None:
    lines = [(f"p{at % 3}", at, at % 5 > 0) for at in range(50)]
    path = ledger(tmp_path / "one", lines, end)

    rows = [
        row
        for split in splits([path], size)
        for batch in read_split(split)
        for row in batch.to_pylist()
    ]
    assert [(row["producer"], row["seq"], row["acked"]) for row in rows] == lines


def test_ledgers_are_files_folders_and_urls(tmp_path: Path) -> None:
    (tmp_path / "all" / "more").mkdir(parents=True)
    ledger(tmp_path / "all" / "one", [("a", 1, True)])
    ledger(tmp_path / "all" / "more" / "two", [("b", 1, True)])
    (tmp_path / "all" / "_temporary").mkdir()
    for hidden in ("_SUCCESS", ".one.crc", "_temporary/three"):
        (tmp_path / "all" / hidden).write_bytes(b"no ledger")

    found = splits([str(tmp_path / "all"), f"file://{tmp_path}/all/one"])
    assert sorted(Path(each.url).name for each in found) == ["one", "one", "two"]
    assert sum(batch.num_rows for each in found for batch in read_split(each)) == 3


def test_a_ledger_line_without_acked_counts_as_acknowledged(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('{"seq": 3, "producer": "a", "offset": 7}\n')

    (batch,) = read_split(*splits([str(tmp_path / "one")]))
    assert batch.to_pylist() == [{"producer": "a", "seq": 3, "acked": True}]


@pytest.mark.parametrize(
    "line",
    [
        '{"producer": 1, "seq": 1}',
        "not JSON",
        '{"producer": "a"}',
        '{"seq": 1}',
        '{"producer": "a", "seq": 1.5}',
    ],
)
def test_an_invalid_line_is_reported(tmp_path: Path, line: str) -> None:
    (tmp_path / "one").write_text(f'{{"producer": "a", "seq": 1}}\n{line}\n')

    with pytest.raises(
        PipelineError,
        match=r"the ledger file://.*/one has a line behind byte 0.*Lines are to be like",
    ):
        list(read_split(Split(f"file://{tmp_path}/one", 0, 1000)))


def test_a_missing_ledger_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no ledger /nowhere"):
        splits(["/nowhere"])


# in Spark

Run = Callable[..., Result]


@pytest.fixture
def run(spark: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("raftka.pipeline.spark.session", lambda *_, **__: spark)
    return lambda *arguments: CliRunner().invoke(
        root, ["audit", "--bootstrap-server", cluster.bootstrap_servers, *map(str, arguments)]
    )


def fill(cluster: Cluster, player: Player, records: Iterable[tuple[str, int, int]]) -> str:
    """Producer, number and partition of each."""
    topic = cluster.create_topic(partitions=2)
    producer = Producer(player.brokers)
    for who, seq, partition in records:
        producer.add((topic, partition), (who.encode(), b'{"seq": %d}' % seq, (), 1))
    producer.flush()
    return topic


def test_planted_defects_of_a_topic_are_found_and_nothing_else(
    run: Run, cluster: Cluster, player: Player, tmp_path: Path
) -> None:
    good = [(f"truck-{at % 10}", at // 10, at % 10 % 2) for at in range(2000)]
    lines = [(who, seq, True) for who, seq, _ in good] + [("truck-3", 500, False)]
    sent = [each for each in good if each not in {("truck-1", 7, 1), ("truck-2", 199, 0)}]  # lost
    sent.insert(100, ("truck-4", 5, 0))
    sent.append(("truck-3", 500, 1))  # nobody knew, and it is there
    sent += [("truck-4", 5, 0), ("nobody", 1, 0), ("truck-5", 777, 1)]
    at, other = sent.index(("truck-6", 50, 0)), sent.index(("truck-6", 51, 0))
    sent[at], sent[other] = sent[other], sent[at]
    topic = fill(cluster, player, sent)
    given = ["--ledger", ledger(tmp_path / "ledger", lines)]

    done = run(*given, "--topic", topic, "-o", "json")
    counts, *listed = [json.loads(line) for line in done.output.splitlines()]

    assert done.exit_code == 1, done.output
    assert counts == {
        "acknowledged": 2000,
        "unknown": 1,
        "records": 2003,
        "lost": 2,
        "duplicated": 1,
        "phantom": 2,
        "reordered": 1,
    }
    assert [(row["kind"], row["producer"], row["seq"]) for row in listed] == [
        ("lost", "truck-1", 7),
        ("lost", "truck-2", 199),
        ("duplicated", "truck-4", 5),
        ("phantom", "nobody", 1),
        ("phantom", "truck-5", 777),
        ("reordered", "truck-6", 50),
    ]
    assert listed[2]["copies"] == 3
    (place,) = [
        at for at, record in enumerate(cluster.records(topic, 0)) if record.key == b"nobody"
    ]
    assert (listed[3]["partition"], listed[3]["offset"]) == (0, place)
    few = run(*given, "--topic", topic, "--limit", "1")
    assert [line.split()[:3] for line in few.output.splitlines()[4:]] == [
        ["lost", "truck-1", "7"],
        ["duplicated", "truck-4", "5"],
        ["phantom", "nobody", "1"],
        ["reordered", "truck-6", "50"],
    ]


def test_all_is_well(run: Run, cluster: Cluster, player: Player, tmp_path: Path) -> None:
    good = [(f"truck-{at % 10}", at // 10, at % 10 % 2) for at in range(200)]
    done = run(
        "--ledger",
        ledger(tmp_path / "ledger", [(who, seq, True) for who, seq, _ in good]),
        "--topic",
        fill(cluster, player, good),
    )

    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.output.splitlines()] == [
        ["acknowledged", "unknown", "records", *KINDS],
        ["200", "0", "200", "0", "0", "0", "0"],
    ]


def test_a_lake_with_columns_of_its_own_names(spark: Any, run: Run, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    path = ledger(tmp_path / "ledger", [("7", 1, True), ("7", 2, True), ("8", 1, True)])
    rows = [(7, 1, 0, 5), (7, 2, 0, 4), (8, 1, 0, 6), (8, 1, 0, 7)]
    spark.createDataFrame(rows, "truck int, number long, partition int, offset long").write.format(
        "raftka_delta"
    ).mode("append").save(lake)
    done = run(
        "--ledger", path, "--delta", lake, "--producer", "truck", "--seq", "number", "-o", "json"
    )

    assert done.exit_code == 1, done.output
    listed = [json.loads(line) for line in done.output.splitlines()[1:]]
    assert [(row["kind"], row["producer"], row["seq"], row["offset"]) for row in listed] == [
        ("duplicated", "8", 1, 6),
        ("reordered", "7", 1, 5),
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--topic", "a", "--delta", "b"], "either --topic or --delta"),
        (["--topic", "nothing"], "there is no topic nothing"),
        (["--delta", "/nowhere"], "there is no Delta table at /nowhere"),
        (
            ["--delta", "LAKE"],
            r"has the columns id; --producer (producer) and --seq (seq) are to be made of these",
        ),
    ],
)
def test_input_that_cannot_be_audited_is_reported(
    spark: Any, run: Run, tmp_path: Path, arguments: list[str], why: str
) -> None:
    lake = str(tmp_path / "lake")
    if "LAKE" in arguments:
        spark.range(3).write.format("raftka_delta").mode("append").save(lake)
    given = [lake if each == "LAKE" else each for each in arguments]
    done = run("--ledger", ledger(tmp_path / "ledger", [("a", 1, True)]), *given)

    assert (done.exit_code, why in done.output) == (2, True), done.output
    assert len(done.output.splitlines()) == 1


def test_a_bad_ledger_is_reported(run: Run, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("no\n")
    done = run("--ledger", tmp_path / "ledger", "--topic", cluster.create_topic())

    assert (done.exit_code, "has a line behind byte 0 that is none" in done.output) == (2, True), (
        done.output
    )
