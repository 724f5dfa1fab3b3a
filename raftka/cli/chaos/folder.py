"""The folder of a run: what `raftka chaos report` reads. history.jsonl, faults.jsonl,
samples.jsonl, verdict.json, plan.json.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from raftka.chaos import history
from raftka.chaos.simulation import Run
from raftka.cli.version import revision
from raftka.json_values import JsonObject


def write_folder(run: Run, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.jsonl").write_text("".join(history.dump(run.history)))
    faults = [
        {"at_s": each.at_s, "until_s": each.until_s, "kind": each.kind, "what": each.what}
        for each in run.faults
    ]
    (folder / "faults.jsonl").write_text(_lines(faults))
    (folder / "samples.jsonl").write_text(_lines(run.samples))
    (folder / "log.txt").write_text("".join(f"{at_s:.6f} {line}\n" for at_s, line in run.lines))
    (folder / "verdict.json").write_text(json.dumps(_verdict(run), indent=1) + "\n")
    (folder / "plan.json").write_text(json.dumps(_plan(run), indent=1) + "\n")


def _lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _verdict(run: Run) -> JsonObject:
    anomalies = run.verdict.anomalies if run.verdict is not None else ()
    return {
        "outcome": run.outcome.value,
        "reason": run.verdict.reason if run.verdict is not None else "",
        "violations": run.violations,
        "anomalies": [each._asdict() for each in anomalies],
        "notes": dict(run.verdict.notes) if run.verdict is not None else {},
        "acknowledged": run.acknowledged,
        "trace_hash": run.trace_hash,
        "probes": dict(run.probes),
    }


def _plan(run: Run) -> JsonObject:
    return {
        "seed": run.seed,
        "plan": run.plan.name,
        "options": asdict(run.settings),
        "faults": [asdict(each) for each in run.planned],
        "commit": revision(),
        "replay": f"raftka chaos replay {run.seed} --plan {run.plan.name}",
        "simulated_s": run.simulated_s,
    }
