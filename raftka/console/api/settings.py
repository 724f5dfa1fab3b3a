"""Settings of topics, brokers and all brokers: where each value comes from, and changes of them."""

from collections.abc import Mapping

from raftka.client.blocking.client import check
from raftka.client.blocking.settings import (
    ALL_BROKERS,
    GIVEN,
    OF_ALL_BROKERS,
    change_settings,
    describe_settings,
    source_name,
)
from raftka.console.call import ApiError, Call
from raftka.console.errors import UNREACHABLE
from raftka.console.limits import SETTINGS_OF_CHANGE
from raftka.console.parameters import Field, Flag, Parameter, Text, refusal
from raftka.console.routes import route
from raftka.json_values import Json, JsonObject
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import DescribeConfigsResourceResult

ALL = "all"  # stands in a path for the settings of all brokers
DEFAULT_SOURCE = 5
TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
FILTER: Mapping[str, Parameter] = {"search": Text(""), "differs": Flag()}
ANSWER = "Settings in order of their names; `without` is the value that would count without the own"
CHANGE = {
    "changes": Field(dict[str, str | None]),
    "validate_only": Field(bool, False),
}
CHANGED = "Each changed setting with its value and source, before and after"


@route("GET", "/api/topics/{topic}/settings", "Settings of a topic", query=FILTER, answer=ANSWER)
def topic_settings(call: Call) -> Json:
    return _listed(call, "topic", call.path["topic"])


@route(
    "GET",
    "/api/brokers/{broker}/settings",
    'Settings of a broker; of "all": those that all brokers share',
    query=FILTER,
    answer=ANSWER,
)
def broker_settings(call: Call) -> Json:
    return _listed(call, "broker", _broker(call))


@route(
    "POST",
    "/api/topics/{topic}/settings",
    "Change settings of a topic; null takes the topic's own value away",
    body=CHANGE,
    writes=True,
    answer=CHANGED,
)
def change_topic(call: Call) -> Json:
    return _changed(call, "topic", call.path["topic"])


@route(
    "POST",
    "/api/brokers/{broker}/settings",
    'Change settings of a broker, or of "all"; null takes the own value away',
    body=CHANGE,
    writes=True,
    answer=CHANGED,
)
def change_broker(call: Call) -> Json:
    return _changed(call, "broker", _broker(call))


def _broker(call: Call) -> str:
    name: str = call.path["broker"]
    return ALL_BROKERS if name == ALL else name


def _listed(call: Call, kind: str, name: str) -> JsonObject:
    words, differs = call.query["search"].lower().split(), call.query["differs"]
    rows = [_row(kind, name, each) for each in _described(call, kind, name).values()]
    found = [
        row
        for row in rows
        if (row["differs"] or not differs)
        and all(word in f"{row['name']} {row['value']}".lower() for word in words)
    ]
    return {
        "settings": found,
        "total": len(found),
        "of_all": len(rows),
        "differing": sum(1 for row in rows if row["differs"]),
    }


def _described(call: Call, kind: str, name: str) -> Mapping[str, DescribeConfigsResourceResult]:
    """Settings by name, in order. Raises KafkaError."""
    alive = call.view.metadata().brokers if kind == "broker" else {}
    node_id = next((each for each in alive if str(each) == name), None)
    if node_id is not None and (why := call.view.silent({node_id})):
        raise ApiError(503, UNREACHABLE, f"broker {name}: {why[node_id]}")
    with call.client() as client:
        answer = describe_settings(client, kind, name, documentation=True)
    if kind == "topic" and not answer.error_code and not answer.configs:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    check(answer.error_code, answer.error_message)
    return {each.name: each for each in sorted(answer.configs, key=lambda each: each.name)}


def _row(kind: str, name: str, entry: DescribeConfigsResourceResult) -> JsonObject:
    value, source = _without_own(kind, name, entry)
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": source_name(entry.config_source),
        "own": entry.config_source == _own_source(kind, name),
        "differs": entry.config_source != DEFAULT_SOURCE,
        "without": {"value": value, "source": source},
        "read_only": entry.read_only,
        "hidden": entry.is_sensitive,
        "type": TYPES.get(entry.config_type, "string"),
        "documentation": entry.documentation or "",
        "synonyms": [
            {"name": each.name, "value": each.value, "source": source_name(each.source)}
            for each in entry.synonyms
        ],
    }


def _own_source(kind: str, name: str) -> int:
    return GIVEN[kind] if name else OF_ALL_BROKERS


def _without_own(
    kind: str, name: str, entry: DescribeConfigsResourceResult
) -> tuple[str | None, str | None]:
    """The value that counts when the thing has none of its own, and its source; None where the
    cluster does not say.
    """
    own = _own_source(kind, name)
    for each in entry.synonyms:
        if each.source != own:
            return each.value, source_name(each.source)
    if entry.config_source != own:
        return entry.value, source_name(entry.config_source)
    return None, None


def _changed(call: Call, kind: str, name: str) -> JsonObject:
    changes: Mapping[str, str | None] = call.body["changes"]
    if not 0 < len(changes) <= SETTINGS_OF_CHANGE.value:
        raise refusal(
            f"changes has {len(changes)} settings, 1 to {SETTINGS_OF_CHANGE.value} are possible"
        )
    before = _described(call, kind, name)
    asked = {each: ("DELETE" if value is None else "SET", value) for each, value in changes.items()}
    with call.client() as client:
        rows = change_settings(client, kind, name, asked, validate_only=call.body["validate_only"])
    for row in rows:
        check(row.error_code, row.error_message)
    return {
        "changed": [
            _difference(kind, name, each, before.get(each), value)
            for each, value in changes.items()
        ]
    }


def _difference(
    kind: str,
    name: str,
    setting: str,
    entry: DescribeConfigsResourceResult | None,
    value: str | None,
) -> JsonObject:
    own = source_name(_own_source(kind, name))
    before: Json = {"value": None, "source": None}
    after: Json = {"value": value, "source": own}
    if entry is not None:
        hidden = entry.is_sensitive
        source = source_name(entry.config_source)
        before = {"value": None if hidden else entry.value, "source": source}
        if value is None:
            found = _without_own(kind, name, entry)
            after = {"value": found[0], "source": found[1]}
        elif hidden:
            after = {"value": None, "source": own}
    return {"name": setting, "before": before, "after": after}
