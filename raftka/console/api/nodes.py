"""Nodes of the program that started the cluster: kill, pause, start, faults, and the time line."""

from typing import cast

from raftka.console.call import ApiError, Call
from raftka.console.control.administrators import check_administrator
from raftka.console.control.channel import Control, ControlRefused
from raftka.console.parameters import Field, refusal
from raftka.console.routes import route
from raftka.console.timeline import FRESH_S, TIMELINES, kind_of
from raftka.json_values import Json, JsonObject

REFUSED, NO_CONTROL = "REFUSED", "NO_CONTROL"
FIRST_S = 1.0  # for the first metadata
FAULT = {
    "kind": Field(str),
    "api": Field(str | None, None),
    "error": Field(str | None, None),
    "ms": Field(int | None, None),
    "times": Field(int | None, None),
    "topic": Field(str | None, None),
    "partition": Field(int | None, None),
    "group": Field(str | None, None),
    "transactional_id": Field(str | None, None),
    "client_id": Field(str | None, None),
    "nodes": Field(list[int] | None, None),
    "nth": Field(int | None, None),
    "try_only": Field(bool, False),  # nothing is set: the answer shows what would be
}


@route(
    "GET",
    "/api/nodes",
    "Nodes, the partitions that they lead, and the actions that there are",
    answer=(
        "nodes: node, title, state (running, starting, paused, stopped), pid, actions (by name the "
        "command that does the same), leads, is_controller"
    ),
)
def nodes(call: Call) -> Json:
    control = _control(call)
    leads: dict[int, int] | None = None
    controller = -1
    # nodes may be dead or stand still: the page does not wait for their answers
    if (aged := call.view.kept_metadata.peek(FRESH_S, FIRST_S)) is not None:
        leads = {node: len(wheres) for node, wheres in aged.value.led.items()}
        controller = aged.value.controller
    try:
        found = control.nodes()
    except ControlRefused as error:
        raise _refused(error) from None
    for each in found:
        is_there = leads is not None and each["state"] != "stopped"
        each["leads"] = leads.get(each["node"], 0) if is_there and leads is not None else None
        each["is_controller"] = is_there and each["node"] == controller
    return {"nodes": found}


@route(
    "POST",
    "/api/nodes/{node}/{action}",
    "Kill, stop, start, pause, resume, cut or join a node",
    writes=True,
    answer="The node's id, and the action that is done",
)
def act(call: Call) -> Json:
    control = _control_of_administrator(call)
    text, action = call.path["node"], call.path["action"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise refusal(f"the id of a node is a whole number, not {text[:40]!r}")
    try:
        control.act(int(text), action)
    except ControlRefused as error:
        raise _refused(error) from None
    return {"node": int(text), "action": action}


@route(
    "GET",
    "/api/faults",
    "Faults that are set, and those that can be",
    answer="kinds (none: no faults here), apis, errors; set: id, text, hits, left, command",
)
def faults(call: Call) -> Json:
    try:
        return _control(call).faults()
    except ControlRefused as error:
        raise _refused(error) from None


@route(
    "POST",
    "/api/faults",
    "Set a fault, of requests that clients send",
    body=FAULT,
    writes=True,
    answer="The fault: id, text, hits, left, command (of a test)",
)
def set_fault(call: Call) -> Json:
    wanted = {name: value for name, value in call.body.items() if value is not None}
    control = _control_of_administrator(call)
    try_only = wanted.pop("try_only")
    try:
        return control.set_fault(wanted, try_only)
    except ControlRefused as error:
        raise refusal(str(error)) from None


@route("DELETE", "/api/faults", "Remove all faults", writes=True, answer="An empty object")
def remove_faults(call: Call) -> Json:
    return _remove(call, None)


@route("DELETE", "/api/faults/{id}", "Remove a fault", writes=True, answer="An empty object")
def remove_fault(call: Call) -> Json:
    text = call.path["id"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise refusal(f"the id of a fault is a whole number, not {text[:40]!r}")
    return _remove(call, [int(text)])


def _remove(call: Call, ids: list[int] | None) -> Json:
    try:
        _control_of_administrator(call).remove_faults(ids)
    except ControlRefused as error:
        raise _refused(error) from None
    return {}


@route(
    "GET",
    "/api/timeline",
    "Leaders, in-sync replicas, groups, nodes, errors of clients, and actions on nodes",
    answer=(
        "events, the newest first: at_ms, until_ms, times, text, kind; failure: why events may "
        "lack, or null"
    ),
)
def timeline(call: Call) -> Json:
    control = cast("Control | None", call.settings.control)
    told: JsonObject = {"is_observed": False, "events": []}
    failure = None
    if control is not None:
        try:
            told = control.events()
        except ControlRefused as error:
            failure = str(error)
    events: list[JsonObject] = list(told["events"])
    if not told["is_observed"]:
        seen, old = TIMELINES.of(call.view).look(call.view)
        events += seen
        failure = failure or old
    events.reverse()  # of one millisecond, too, the last comes first
    events.sort(key=lambda event: -int(event["at_ms"]))
    return {
        "events": [{**event, "kind": kind_of(event["text"])} for event in events],
        "failure": failure,
    }


def _control(call: Call) -> Control:
    """Return the launcher's control. Raises ApiError where there is no launcher."""
    if call.settings.control is None:
        raise ApiError(
            404,
            NO_CONTROL,
            "this console controls no nodes: those of `raftka cluster start`, `raftka demo` and of "
            "the pytest fixture do",
        )
    return cast("Control", call.settings.control)


def _control_of_administrator(call: Call) -> Control:
    """Return the control, of a user who may alter the cluster. Raises ApiError."""
    control = _control(call)
    check_administrator(call, "so not its nodes either")
    return control


def _refused(error: ControlRefused) -> ApiError:
    return ApiError(409, REFUSED, str(error))
