"""`raftka balance` and `raftka brokers ...`: replicas and leaders moved until the brokers are even,
all of a broker's moved away, or its share moved there. Speaks Kafka's protocol alone.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from raftka.balance.moves import cancel, carry_out, lift_all
from raftka.balance.state import CORDONED, ClusterState, read_state
from raftka.cli.admin.client import connect
from raftka.cli.admin.configs import changed
from raftka.cli.output import CommandFailed, command, show, warn
from raftka.cli.progress import progress
from raftka.client.blocking.client import Client
from raftka.metadata.balance import (
    BalancedBroker,
    Evenness,
    Move,
    Unbalanced,
    measure,
    plan_balance,
)


@command
def balance(
    dry_run: bool,
    throttle: int,
    look: float,
    cancelled: bool,
    quiet: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    with connect(bootstrap_server) as client:
        if cancelled:
            number = cancel(client)
            lift_all(client)
            print(f"{number} partitions stay where they were; throttles are removed")
            return
        _carry_out(client, _plan(client, look), dry_run, throttle, quiet, output)


@command
def drain(
    brokers: Sequence[int],
    dry_run: bool,
    throttle: int,
    look: float,
    quiet: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    with connect(bootstrap_server) as client:
        plan = _plan(client, look, leaving=brokers)
        if not dry_run:
            _cordon(client, plan.state, brokers, ("SET", "*"))
        _carry_out(client, plan, dry_run, throttle, quiet, output)


@command
def add(
    brokers: Sequence[int],
    dry_run: bool,
    throttle: int,
    look: float,
    quiet: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    with connect(bootstrap_server) as client:
        plan = _plan(client, look, added=brokers)
        if missing := sorted(set(brokers) - plan.state.brokers.keys()):
            raise CommandFailed(f"broker {missing[0]} is not alive: start it first")
        if not dry_run:
            _cordon(client, plan.state, brokers, ("DELETE", None))
        _carry_out(client, plan, dry_run, throttle, quiet, output)


def _cordon(
    client: Client, state: ClusterState, brokers: Sequence[int], change: tuple[str, str | None]
) -> None:
    """Let these brokers get no new replicas, or again. A Kafka before 4.3 does not know that."""
    for each in sorted(state.brokers.keys() & set(brokers)):
        if refused := changed(client, "broker", [str(each)], {CORDONED: change}):
            warn(f"new topics may use it meanwhile: {refused[0]}")


class _Plan(NamedTuple):
    state: ClusterState
    brokers: Mapping[int, BalancedBroker]
    moves: Sequence[Move]


def _plan(
    client: Client, look: float, leaving: Sequence[int] = (), added: Sequence[int] = ()
) -> _Plan:
    """Raises CommandFailed where there is none."""
    state = read_state(client, look)
    if gone := sorted(set(state.gone) - set(leaving)):
        raise CommandFailed(
            f"broker {gone[0]} is not alive: start it, or move its replicas away with `raftka "
            f"brokers drain {gone[0]}`"
        )
    brokers = {
        **{each: BalancedBroker(takes=False) for each in leaving},
        **{
            node_id: each._replace(
                takes=(each.takes or node_id in added) and node_id not in leaving
            )
            for node_id, each in state.brokers.items()
        },
    }
    try:
        return _Plan(state, brokers, plan_balance(state.partitions, brokers))
    except Unbalanced as error:
        raise CommandFailed(str(error)) from None


def _carry_out(
    client: Client, plan: _Plan, dry_run: bool, throttle: int, quiet: bool, output: str
) -> None:
    """Show the plan, and carry it out unless it is a dry run."""
    _show(plan, output)
    if dry_run or not plan.moves:
        return
    with progress("moving", len(plan.moves), "partitions", quiet=quiet) as shown:
        carry_out(client, plan.moves, throttle, plan.state.brokers.keys(), shown.update)


def _show(plan: _Plan, output: str) -> None:
    before = plan.state.partitions
    after = {
        **before,
        **{each.where: before[each.where]._replace(replicas=each.after) for each in plan.moves},
    }
    everywhere = {node_id: each._replace(takes=True) for node_id, each in plan.brokers.items()}
    rows = _rows(measure(before, everywhere), measure(after, everywhere))
    copied = sum(each.copied for each in plan.moves)
    if output == "json":
        shown = [
            {"topic": topic, "partition": index, "replicas": each.before, "wanted": each.after}
            for each in plan.moves
            for topic, index in [each.where]
        ]
        print(json.dumps({"brokers": rows, "moves": shown, "copied_bytes": copied}))
        return
    show(rows, list(rows[0]) if rows else [], output)
    within = f"{measure(after, plan.brokers).unevenness:.1%} from the mean at most"
    if plan.moves:
        print(f"{len(plan.moves)} partitions change, {copied:,} bytes are copied; then {within}")
    else:
        print(f"nothing to move: {within}")


def _rows(before: Evenness, after: Evenness) -> list[dict[str, Any]]:
    return [
        {
            "broker": each,
            "size_bytes": before.sizes[each],
            "size_after": after.sizes[each],
            "leads": before.leaders[each],
            "leads_after": after.leaders[each],
            "rate_bytes": round(before.rates[each]),
            "rate_after": round(after.rates[each]),
        }
        for each in sorted(before.sizes)
    ]
