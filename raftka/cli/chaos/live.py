"""`raftka chaos live`: a round with real processes and real clients, and what came of it. Knows no
fault.
"""

import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from raftka.chaos.history import HistoryFailed
from raftka.chaos.live.clients.wire import NAME as OWN
from raftka.chaos.live.nemeses.mix import BEYOND, MIX, chosen
from raftka.chaos.live.nemeses.upgrades import Upgrade
from raftka.chaos.live.network import enter
from raftka.chaos.live.run import Options, Run, live
from raftka.chaos.report import report
from raftka.chaos.verdict import Outcome
from raftka.cli.version import revision
from raftka.cluster.processes import ClusterFailed
from raftka.json_values import JsonObject

EXIT_CODES = {Outcome.VALID: 0, Outcome.VIOLATED: 1, Outcome.INCONCLUSIVE: 2}
SHOWN = 20
WITH_SHARES_PER_S = 100.0  # records of the one producer


def play(
    minutes: float,
    nodes: int,
    nemesis: str,
    seed: int,
    out: Path | None,
    record: Path | None,
    output: str,
    kafka_home: str,
    share_consumers: int,
    earlier: Path | None,
    *,
    secure: bool,
) -> int:
    names = tuple(name.strip() for name in nemesis.split(",") if name.strip())
    try:
        chosen(each for each in names if each != Upgrade.name)
    except KeyError as error:
        print(
            f"raftka: there is no nemesis {error}; there are mix, {', '.join((*MIX, *BEYOND))}",
            file=sys.stderr,
        )
        return 2
    folder = out or Path(tempfile.mkdtemp(prefix="raftka-chaos-"))
    options = Options(
        minutes, nodes, names, seed, kafka_home=kafka_home, secure=secure, earlier=earlier
    )
    if share_consumers:
        options = replace(
            options, clients=(OWN,), per_s=WITH_SHARES_PER_S, share_consumers=share_consumers
        )
    say = (lambda line: print(line, flush=True)) if output == "text" else (lambda line: None)
    try:
        run = live(options, folder, say, revision(), enter())
    except ClusterFailed as error:
        print(f"raftka: the cluster did not start: {error}", file=sys.stderr)
        return EXIT_CODES[Outcome.INCONCLUSIVE]
    page = report(folder)
    if out is None and run.verdict.outcome is Outcome.VALID:
        # the nodes' logs: nobody will look for anything there
        shutil.rmtree(folder / "cluster", ignore_errors=True)
    if record is not None:
        _record(record, run)
    if output == "json":
        print(
            json.dumps(
                {
                    "outcome": run.verdict.outcome,
                    "figures": run.figures,
                    "missing": run.missing,
                    "report": str(page),
                }
            )
        )
    else:
        _print_result(run, page)
    return EXIT_CODES[run.verdict.outcome]


def make_report(folder: Path) -> int:
    try:
        print(report(folder))
    except (OSError, ValueError, KeyError, HistoryFailed) as error:
        print(f"raftka: {folder} is no folder of a run: {error}", file=sys.stderr)
        return 1
    return 0


def _print_result(run: Run, page: Path) -> None:
    figures = run.figures
    print(f"\n{run.verdict}")
    for each in run.verdict.anomalies[:SHOWN]:
        print(f"  {each}")
    print(
        f"  {figures['seconds']:.0f} s, {figures['rounds']} rounds, "
        f"{sum(figures['faults'].values())} faults ({sum(figures['bit'].values())} bit)"
    )
    print("  " + ", ".join(f"{name} {count}" for name, count in figures["faults"].items()))
    print(f"  {figures['operations']:,} operations of {', '.join(figures['clients'])}")
    print(
        f"  {figures['sent']:,} records sent, {figures['acknowledged']:,} acknowledged, "
        f"{figures['lost']} lost, {figures['duplicates']} duplicates"
    )
    if run.options.nemesis == (Upgrade.name,):  # other faults take longer, as they should
        print(f"  longest write: {figures['longest_write_s']:.3f} s")
    if figures["share_consumers"]:
        print(
            "  share consumers: "
            + ", ".join(f"{name} {each:,}" for name, each in figures["share_consumers"].items())
        )
    for line in (*figures["troubles"], *(f"not here: {each}" for each in run.missing)):
        print(f"  {line}")
    print(f"  report: {page}\n  again: {run.options.command}")


def _record(path: Path, run: Run) -> None:
    kept = (
        "seconds",
        "rounds",
        "faults",
        "bit",
        "operations",
        "sent",
        "acknowledged",
        "read",
        "lost",
        "duplicates",
        "longest_write_s",
        "clients",
        "share_consumers",
    )
    line: JsonObject = {
        "at": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        "commit": revision(),
        "plan": "live",
        "minutes": run.options.minutes,
        "nodes": run.options.nodes,
        "nemesis": ",".join(run.options.nemesis),
        "seed": run.options.seed,
        "secure": run.options.secure,
        "upgraded": run.options.earlier is not None,
        "outcome": run.verdict.outcome,
        **{name: run.figures[name] for name in kept},
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
