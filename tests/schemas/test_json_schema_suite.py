"""References, ids and anchors as the official JSON-Schema-Test-Suite judges them (MIT, its LICENSE
is beside it).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.json_values import Json
from raftka.schemas.formats.json_schema.documents import Document, Documents, draft_of
from raftka.schemas.formats.schema import InvalidSchema
from tests.schemas.instances import is_valid

SUITE = Path(__file__).with_name("json_schema_suite")
DRAFTS = {"draft4": 4, "draft6": 6, "draft7": 7, "draft2019-09": 2019, "draft2020-12": 2020}
HOST = "http://localhost:1234/"


def groups() -> Iterator[tuple[str, int, Json]]:
    for folder, draft in DRAFTS.items():
        for path in sorted((SUITE / "tests" / folder).glob("*.json")):
            for group in json.loads(path.read_text("utf-8")):
                yield f"{folder}/{path.stem}: {group['description']}", draft, group


GROUPS = {name: (draft, group) for name, draft, group in groups()}


def documents_of(schema: Json, draft: int) -> Documents:
    found = Documents(Document("", schema, draft_of(schema, draft)))
    for path in sorted((SUITE / "remotes").rglob("*.json")):
        name = path.relative_to(SUITE / "remotes").as_posix()
        folder = name.partition("/")[0]
        if (
            folder.startswith("draft")
            and "cross" not in name
            and DRAFTS[folder] != draft
            and "$schema" not in path.read_text("utf-8")
        ):
            continue
        value = json.loads(path.read_text("utf-8"))
        found.add(Document(HOST + name, value, draft_of(value, draft)))
    return found


@pytest.mark.parametrize("name", GROUPS)
def test_references_lead_where_the_suite_says(name: str) -> None:
    draft, group = GROUPS[name]
    documents = documents_of(group["schema"], draft)

    found = {test["description"]: is_valid(documents, test["data"]) for test in group["tests"]}

    assert found == {test["description"]: test["valid"] for test in group["tests"]}


# bugs, planted


def _no_resources(self: Documents, value: Json, document: object) -> object:
    return document


@pytest.mark.parametrize(
    ("name", "planted", "group"),
    [
        ("entered", _no_resources, "draft2020-12/ref: relative refs with absolute uris and defs"),
        (
            "_outermost",
            lambda self, anchor, found, document: found,
            "draft2020-12/dynamicRef: multiple dynamic paths to the $dynamicRef keyword",
        ),
    ],
)
def test_bugs_in_resources_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, planted: object, group: str
) -> None:
    test_references_lead_where_the_suite_says(group)
    monkeypatch.setattr(Documents, name, planted)

    with pytest.raises((AssertionError, InvalidSchema)):
        test_references_lead_where_the_suite_says(group)
