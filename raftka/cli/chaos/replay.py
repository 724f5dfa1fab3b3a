"""`raftka chaos replay SEED`: one life again, and told: settings, faults, what the nodes logged,
the end. The same in every process.
"""

import re
from ast import literal_eval
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from heapq import merge
from pathlib import Path
from random import Random

from raftka.chaos.runner import options_of
from raftka.chaos.simulated.swarm import PLANS, Settings, choose, with_more
from raftka.chaos.simulation import Run, simulate
from raftka.chaos.small.lives import play
from raftka.cli.chaos.folder import write_folder
from raftka.cli.output import CommandFailed, command

LAST = 12  # events of each node
ALL = 50_000_000
CODES = {"valid": 0, "violated": 1, "inconclusive": 2}
NODE = re.compile(r" node=(\d+)")


def replay(
    seed: int,
    plan: str,
    earlier: Path | None,
    work: str | None,
    small: bool,
    trace: bool,
    until_s: float | None,
    skip: str,
    settings: Sequence[str],
    out: Path | None,
) -> int:
    keep_trace = ALL if trace else 0
    code = 0

    def verb() -> None:
        nonlocal code
        if small:
            code = _replay_small(seed)
        elif work is not None:
            options = replace(options_of(work), until_s=until_s, keep_trace=keep_trace)
            code = _print_result(seed, simulate(seed, options), f"{work} at work", trace)
        else:
            given = given_settings(seed, plan, settings) if settings else None
            run = simulate(
                seed,
                replace(
                    options_of(plan, earlier),
                    settings=given,
                    skip=numbers(skip),
                    until_s=until_s,
                    keep_trace=keep_trace,
                    samples=out is not None,
                ),
            )
            if out is not None:
                write_folder(run, out)
            code = _print_result(seed, run, f"plan {plan}: {run.settings}", trace)

    return command(verb)() or code


def _replay_small(seed: int) -> int:
    life = play(seed)
    print(
        f"seed {seed}, {'replication' if seed % 2 else 'the metadata quorum'} alone, "
        f"{life.simulated_s:.3f} simulated s"
    )
    print(f"{life.faults} faults, {life.operations} operations, {life.acknowledged} acknowledged")
    for violation in life.violations:
        print(f"  VIOLATED  {violation}")
    print(f"verdict {life.outcome}")
    print(f"trace hash {life.trace_hash}")
    return CODES[life.outcome]


def numbers(text: str) -> frozenset[int]:
    """`3,7-9` is 3, 7, 8, 9."""
    found: set[int] = set()
    try:
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError:
        raise CommandFailed(f"--skip takes numbers and ranges of faults, not {text!r}") from None
    return frozenset(found)


def given_settings(seed: int, plan: str, pairs: Sequence[str]) -> Settings:
    """Return the settings that the seed draws, with the given ones in their place."""
    chosen = with_more(
        PLANS[plan], choose(PLANS[plan], Random(f"{seed}/settings")), Random(f"{seed}/beside")
    )
    names = {each.name for each in fields(Settings)}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in names:
            raise CommandFailed(f"there is no setting {name}: {', '.join(sorted(names))}")
        try:
            chosen = replace(chosen, **{name: literal_eval(value)})
        except (ValueError, SyntaxError):
            raise CommandFailed(f"{value!r} is no value for {name}") from None
    return chosen


def _print_result(seed: int, run: Run, of_what: str, trace: bool) -> int:
    print(f"seed {seed}, {of_what}")
    lines = [(at_s, f"{at_s:11.6f} {line}") for at_s, line in run.lines]
    faults = [
        (each.at_s, f"{each.at_s:11.6f} FAULT  {each.number:3} {each.what}") for each in run.faults
    ]
    if trace:
        steps = [
            (at_s, f"{at_s:11.6f} {kind} {node} {a} {b}") for at_s, kind, node, a, b in run.trace
        ]
        for _, line in merge(steps, faults, lines, key=lambda each: each[0]):
            print(line)
    elif run.violations or run.stopped:
        _tell_end(run)
    else:
        for _, line in merge(faults, lines, key=lambda each: each[0]):
            print(line)
    print(
        f"{run.operations:,} operations, {run.acknowledged:,} acknowledged, {run.simulated_s:.3f} "
        "simulated s"
    )
    print(f"stopped at {run.simulated_s:.3f} s" if run.stopped else f"verdict {run.outcome}")
    print(f"trace hash {run.trace_hash}")
    return 0 if run.stopped else CODES[run.outcome]


def _tell_end(run: Run) -> None:
    """Print the end of the run: the faults, the last log line of each node, and the violations."""
    for fault in run.faults:
        print(f"{fault.at_s:11.6f} FAULT  {fault.number:3} {fault.what}")
    by_node: dict[int, list[str]] = defaultdict(list)
    for at_s, line in run.lines:
        if (match := NODE.search(line)) is not None:
            by_node[int(match[1])].append(f"{at_s:11.6f} {line}")
    for node_id, said in sorted(by_node.items()):
        print(f"\nthe last of node {node_id}:")
        print(*said[-LAST:], sep="\n")
    print(f"\nat {run.simulated_s:.6f} s:")
    for violation in run.violations:
        print("  VIOLATED  " + violation.rstrip().replace("\n", "\n    "))
