"""`raftka chaos live` and `report` as commands: their exit codes, what they say, what they
leave.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftka.chaos import checker
from raftka.chaos.history import OK, PRODUCE, History, dump
from raftka.chaos.live.nemeses.mix import BEYOND, MIX
from raftka.chaos.live.network import OwnNetwork
from raftka.chaos.live.run import Options, Run, figures_of, verdict_fields
from raftka.chaos.verdict import Rules, Verdict
from raftka.cli.chaos import live as chaos_live
from raftka.cli.commands import root
from raftka.cluster.processes import ClusterFailed


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are no processes of their own: nobody may take them out of the machine's network."""
    monkeypatch.setattr(chaos_live, "enter", lambda: OwnNetwork("not in a test"))


def forged(folder: Path, options: Options, offset: int, least: int) -> Run:
    """A round in which two records were acknowledged, at these offsets of one partition; nobody
    reads the second, which has two.
    """
    history = History()
    for process in (1, 2):
        history.invoke(process, PRODUCE, 0.5, sends=[["t-0", process, None]])
        history.end(process, OK, 0.6, sends=[["t-0", process, offset * process]])
    verdict: Verdict = checker.check(
        history, Rules(least_acknowledged=least, least_polled=0, final_reads=False)
    )
    faults: Counter[str] = Counter({"kill-all": 2})
    troubles: list[str] = []
    figures = {
        "seconds": 1.0,
        "rounds": 1,
        "faults": faults,
        "bit": faults,
        "clients": ["x"],
        "healed_after_s": 0.1,
        "troubles": troubles,
        "share_consumers": {"consumers": 1000, "crashes": 2000},
        "longest_write_s": 0.0,
    }
    run = Run(options, folder, verdict, figures | figures_of(history, verdict), ["a compiler"])
    (folder / "history.jsonl").write_text("".join(dump(history)))
    (folder / "verdict.json").write_text(
        json.dumps({**verdict_fields(verdict), "figures": run.figures, "missing": run.missing})
    )
    (folder / "plan.json").write_text(
        json.dumps({"kind": "live", "seed": options.seed, "replay": options.command})
    )
    return run


@pytest.mark.parametrize(
    ("offset", "least", "code", "said"),
    [(1, 1, 0, "valid"), (0, 1, 1, "violated"), (1, 500, 2, "inconclusive")],
)
def test_the_verdict_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, least: int, code: int, said: str
) -> None:
    asked: list[Options] = []

    def live(options: Options, folder: Path, say: object, commit: str, network: OwnNetwork) -> Run:
        asked.append(options)
        return forged(folder, options, offset, least)

    monkeypatch.setattr(chaos_live, "live", live)
    record = tmp_path / "runs.jsonl"
    arguments = [
        "chaos",
        "live",
        "--secure",
        "--minutes",
        "0.5",
        "--nodes",
        "4",
        "--nemesis",
        "kill-all,ring",
        "--seed",
        "9",
        "--out",
        str(tmp_path),
    ]

    done = CliRunner().invoke(root, [*arguments, "--record", str(record)])

    assert done.exit_code == code, done.output
    assert f"\n{said}" in done.output
    assert "not here: a compiler" in done.output
    assert (
        "raftka chaos live --secure --minutes 0.5 --nodes 4 --nemesis kill-all,ring --seed 9"
        in done.output
    )
    assert (asked[0].nodes, asked[0].nemesis, asked[0].seed, asked[0].secure) == (
        4,
        ("kill-all", "ring"),
        9,
        True,
    )
    assert (tmp_path / "report.html").exists()
    line = json.loads(record.read_text())
    assert (
        line["outcome"],
        line["acknowledged"],
        line["faults"],
        line["seed"],
        line["secure"],
    ) == (said, 2, {"kill-all": 2}, 9, True)

    again = CliRunner().invoke(root, [*arguments, "-o", "json"])
    assert json.loads(again.output)["outcome"] == said


def test_a_cluster_that_does_not_start_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def live(*_: object) -> Run:
        raise ClusterFailed("no")

    monkeypatch.setattr(chaos_live, "live", live)

    done = CliRunner().invoke(root, ["chaos", "live", "--out", str(tmp_path)])

    assert done.exit_code == 2
    assert "the cluster did not start: no" in done.output


def test_a_nemesis_that_there_is_not_lists_those_that_are() -> None:
    done = CliRunner().invoke(root, ["chaos", "live", "--nemesis", "kill-one,no-such"])

    assert done.exit_code == 2
    assert all(name in done.output for name in (*MIX, *BEYOND))


def test_a_folder_of_no_run_has_no_report(tmp_path: Path) -> None:
    done = CliRunner().invoke(root, ["chaos", "report", str(tmp_path)])

    assert done.exit_code == 1
    assert "is no folder of a run" in done.output
