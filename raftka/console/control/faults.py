"""Faults that a console's user sets: from the fields of a form to a fault of `raftka.testing`, and
the line of a test that does the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from raftka.broker.network.dispatch import HANDLERS
from raftka.console.control.channel import ControlRefused
from raftka.json_values import Json, JsonObject
from raftka.testing.faults.effects import cuts, delays, fails, throttles
from raftka.testing.faults.fault import Effect, Fault
from raftka.testing.faults.selection import LOGINS, Selection
from raftka.wire.errors import Code

WHERE = ("topic", "partition", "group", "transactional_id", "client_id", "nodes", "nth")
NUMBERS = ("partition", "nth", "ms", "times")


@dataclass(frozen=True, slots=True)
class Kind:
    """A method of a test's cluster that sets a fault. `needs`: what it takes besides the choice of
    requests; `times`: how often it hits unless the user says so.
    """

    method: str
    title: str
    needs: str  # error, ms, or nothing
    times: float
    effect: Callable[[JsonObject, Selection], Effect]

    def describe(self) -> JsonObject:
        return {"kind": self.method, "title": self.title, "needs": self.needs}


KINDS = {
    kind.method: kind
    for kind in (
        Kind("fail_next", "Answer with an error", "error", 1, lambda w, s: fails([w["error"]])),
        Kind("delay", "Slow: let requests wait", "ms", inf, lambda w, s: delays(w["ms"])),
        Kind("throttle", "Throttle clients", "ms", 1, lambda w, s: throttles(s, w["ms"])),
        Kind("lose_requests", "Lose requests", "", 1, lambda w, s: cuts(before=True)),
        Kind("lose_answers", "Lose answers", "", 1, lambda w, s: cuts(before=False)),
    )
}


def offered() -> JsonObject:
    """Return what a form needs: kinds, names of APIs and of errors."""
    names = sorted(each.api.name for each in HANDLERS.values() if each.api.name not in LOGINS)
    return {
        "kinds": [kind.describe() for kind in KINDS.values()],
        "apis": names,
        "errors": [code.name for code in Code if code is not Code.NONE],
    }


def make_fault(wanted: JsonObject, nodes: Sequence[int]) -> tuple[Fault, str]:
    """Return the fault, and the line of Python that sets it in a test. `wanted`: `kind`, `api`
    (None: all), what the kind needs, `times` (None: the kind's own; 0: without end), and what
    chooses requests, by the names of `docs/testing-faults.md`. Raises ControlRefused.
    """
    kind = KINDS.get(str(wanted.get("kind")))
    if kind is None:
        raise ControlRefused(f"there is no fault {wanted.get('kind')!r}: {', '.join(KINDS)}")
    known = {"kind", "api", "times", kind.needs, *WHERE}
    if unknown := sorted(wanted.keys() - known):
        raise ControlRefused(f"{kind.method} takes no {', '.join(unknown)}")
    given = {name: value for name, value in wanted.items() if value not in (None, "", [])}
    for name in NUMBERS:
        if name in given and (isinstance(given[name], bool) or not isinstance(given[name], int)):
            raise ControlRefused(f"{name}={given[name]!r}: a whole number")
    if kind.needs and kind.needs not in given:
        raise ControlRefused(f"{kind.method} needs {kind.needs}")
    api = given.get("api")
    where = {name: given[name] for name in WHERE if name in given}
    often = kind.times if "times" not in given else given["times"] or inf
    try:
        selection = Selection(api, where, nodes)
        fault = Fault(_name(kind, given), selection, kind.effect(given, selection), often)
    except (ValueError, TypeError) as error:
        raise ControlRefused(str(error)) from None
    return fault, _command(kind, given, where, often)


def _name(kind: Kind, given: JsonObject) -> str:
    words = [kind.method, given.get("api", "all APIs")]
    if kind.needs:
        words.append(f"{given[kind.needs]}{' ms' if kind.needs == 'ms' else ''}")
    return " ".join(map(str, words))


def _command(kind: Kind, given: JsonObject, where: dict[str, Json], often: float) -> str:
    arguments = [repr(given.get("api"))]
    if kind.needs:
        arguments.append(repr(given[kind.needs]))
    arguments += [f"{name}={value!r}" for name, value in where.items()]
    if often != kind.times:
        arguments.append("times=inf" if often == inf else f"times={often}")
    return f"cluster.{kind.method}({', '.join(arguments)})"
