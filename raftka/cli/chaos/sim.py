"""`raftka chaos sim`: many seeds, with a progress bar, seeds a second and what was never seen."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from raftka.chaos.runner import SMALL, Summary, Total, many, options_of
from raftka.chaos.simulated.checks.probes import PROBES, never_seen
from raftka.chaos.simulation import Options, simulate
from raftka.chaos.verdict import Outcome
from raftka.cli.chaos.folder import write_folder
from raftka.cli.progress import Progress, progress
from raftka.cli.version import revision

LEAST_FOR_COVERAGE = 100  # seeds: fewer may miss something by chance


def sim(
    seeds: range,
    jobs: int,
    plan: str,
    earlier: Path | None,
    work: str | None,
    small: bool,
    out: Path | None,
    record: Path | None,
    quiet: bool,
    output: str,
) -> int:
    name = SMALL if small else work or plan
    option = "--small" if small else f"--work {work}" if work is not None else f"--plan {plan}"
    option += f" --upgrade-from {earlier}" if earlier is not None else ""
    began = time.monotonic()
    with (
        many(seeds, name, jobs, earlier) as found,
        progress("simulating", len(seeds), "seeds", quiet=quiet) as shown,
    ):
        total = _gather(found, f"raftka chaos replay {{}} {option}", shown)
    seconds = time.monotonic() - began
    if out is not None:
        _keep(total, seeds, replace(options_of(plan, earlier), samples=True), out)
    bad = {"bad": [each.seed for each in total.bad]} if total.bad else {}
    longest = {"longest_write_s": round(total.longest_write_s, 3)} if total.longest_write_s else {}
    result = {
        "plan": name,
        "first": seeds[0],
        "last": seeds[-1],
        **total.as_json(),
        **bad,
        **longest,
        "wall_s": round(seconds, 1),
    }
    if record is not None:
        _record(record, result)
    if output == "json":
        print(
            json.dumps(
                {"bad": [], **result, "coverage": dict(total.probes), "hashes": total.hashes}
            )
        )
    else:
        _print_result(name, seeds, total, seconds)
    return total.exit_code


def _gather(found: Iterable[Summary], replay: str, shown: Progress) -> Total:
    total = Total()
    for one in found:
        total.add(one)
        if one.outcome is not Outcome.VALID:
            shown.clear()
            print(f"seed {one.seed}: {one.outcome}  ({replay.format(one.seed)})", file=sys.stderr)
            for violation in one.violations:
                print("    " + violation.rstrip().replace("\n", "\n    "), file=sys.stderr)
        bad = total.outcomes[Outcome.VIOLATED]
        seen = sum(1 for name in PROBES if total.probes[name])
        note = f"{seen}/{len(PROBES)} rare events seen" if seen else ""
        shown.update(total.seeds, f"{bad} violated  {note}")
    return total


def _print_result(plan: str, seeds: range, total: Total, seconds: float) -> None:
    a_cpu_second = total.seeds / max(total.cpu_s, 1e-9)
    print(
        f"{plan}: seeds {seeds[0]}-{seeds[-1]}, "
        f"{', '.join(f'{total.outcomes[each]} {each}' for each in Outcome)}"
    )
    print(
        f"  {total.faults:,} faults, {total.operations:,} operations, {total.acknowledged:,} "
        "acknowledged"
    )
    print(
        f"  {total.simulated_s / max(total.seeds, 1):.1f} simulated s each, "
        f"{total.seeds / max(seconds, 1e-9):.2f} seeds/s,"
        f" {a_cpu_second:.2f} a CPU second"
    )
    if total.longest_write_s:
        print(f"  longest write: {total.longest_write_s:.3f} s")
    if total.probes:
        print(
            "  seen in so many seeds: "
            + ", ".join(f"{name} {total.probes[name]}" for name in PROBES if total.probes[name])
        )
    missing = never_seen(Counter(total.probes))
    if total.probes and missing and total.seeds >= LEAST_FOR_COVERAGE:
        print("  NEVER SEEN: " + "; ".join(f"{name} ({PROBES[name]})" for name in missing))
    if not total.outcomes[Outcome.VIOLATED]:
        print(
            f"  none of {total.seeds} violated: with 95 % the share of those that do is below "
            f"{min(3 / max(total.seeds, 1), 1):.2%}"
        )


def _keep(total: Total, seeds: range, options: Options, out: Path) -> None:
    wanted = [seeds[0]] if len(seeds) == 1 else [each.seed for each in total.bad]
    for seed in wanted:
        run = simulate(seed, options)
        write_folder(run, out if len(seeds) == 1 else out / f"{options.plan.name}-{seed}")


def _record(path: Path, result: dict[str, object]) -> None:
    with path.open("a") as file:
        file.write(
            json.dumps(
                {
                    "at": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
                    "commit": revision(),
                    **result,
                }
            )
            + "\n"
        )
