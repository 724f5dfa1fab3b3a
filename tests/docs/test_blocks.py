"""Every block of code in the documents is run or checked; see blocks.py for how."""

import re
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

pytest.importorskip("sybil", reason="sybil is not installed: ./run setup does it")

from raftka.cli.admin.client import connect
from raftka.cluster.processes import Processes, running
from tests.clients.hanging import UNVERIFIED, hang
from tests.docs.blocks import (
    MARKER,
    NO_CODE,
    PAGES,
    RUN_ELSEWHERE,
    console,
    document,
    fences,
    properties,
    ways,
)
from tests.docs.shell import Failed, Shell
from tests.docs.stand_in import RUN_ELSEWHERE as COMMANDS_ELSEWHERE
from tests.kit.documents import ROOT

MOST_SKIPPED = 12
REASON = r'".+"|if\(no_gssapi, reason=".+"\)'
HANGING = "docs/operations.md"  # finds and aborts a transaction; docs/doctor.md finds nothing
LATE_MS = 47 * 60_000  # that transaction has been open for so long
COMMAND = re.compile(r"^\s*(\$ |raftka |pip |apt |\./run |\.venv/)", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run_here(page: Path) -> list[str]:
    """Return the languages of a page's blocks that are run here."""
    return [
        language
        for language in fences(page.read_text())
        if language != NO_CODE and (name_of(page), language) not in RUN_ELSEWHERE
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """With the topics that pages use."""
    with running(nodes=3, settings=UNVERIFIED) as cluster:
        with Shell(tmp_path_factory.mktemp("topics"), cluster.bootstrap_servers) as shell:
            for topic in ("orders", "payments"):
                shell.script(f"raftka topics create {topic} --partitions 3")
        yield cluster


@pytest.fixture
def shell(cluster: Processes, tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path, cluster.bootstrap_servers) as shell:
        yield shell


@pytest.mark.parametrize("page", [page for page in PAGES if run_here(page)], ids=name_of)
def test_blocks_of_a_page_run(
    page: Path, cluster: Processes, shell: Shell, subtests: pytest.Subtests
) -> None:
    if name_of(page) == HANGING:
        with connect(cluster.bootstrap_servers) as client:
            hang(client, "orders", 2, age_ms=LATE_MS)
    text = page.read_text()
    blocks = 0
    for example in document(page, shell).examples():
        if text.startswith("<!--", example.region.start):
            example.evaluate()
            continue
        blocks += 1
        with subtests.test(line=example.line):
            try:
                example.evaluate()
            except SkipTest as skipped:
                pytest.skip(str(skipped))

    assert blocks == len(run_here(page))


def test_every_block_names_a_language_that_is_run(tmp_path: Path) -> None:
    known = {*ways(Shell(tmp_path, "")), NO_CODE, "sql"}
    unknown = [
        f"{name_of(page)}: {language or 'a block without a language'}"
        for page in PAGES
        for language in fences(page.read_text())
        if language not in known and (name_of(page), language) not in RUN_ELSEWHERE
    ]

    assert unknown == []


def test_blocks_of_text_are_no_commands() -> None:
    blocks = re.compile(rf"^ *```{NO_CODE}\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

    assert [
        f"{name_of(page)}: {block}"
        for page in PAGES
        for block in blocks.findall(page.read_text())
        if COMMAND.search(block)
    ] == []


def test_blocks_that_are_not_run_are_few_and_have_a_reason() -> None:
    reasons = {name_of(page): MARKER.findall(page.read_text()) for page in PAGES}

    found = [reason for reasons in reasons.values() for reason in reasons]

    assert [each for each in found if not re.fullmatch(REASON, each)] == []
    assert len(found) <= MOST_SKIPPED


def test_tests_that_run_the_other_blocks_name_the_page_or_the_command() -> None:
    for (page, language), test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(), test
        assert language in fences((ROOT / page).read_text()), page
    for words, test in COMMANDS_ELSEWHERE.items():
        assert words[-1] in (ROOT / test).read_text(), test


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("raftka topics crate trucks", "No such command"),
        ("raftka demo --staying", "No such option"),
        ("raftka topics list\nfalse", "exit code 1"),
        ("pip install 'raftka[pipelines]'", "no extra pipelines"),
        ("./run tests", "no command tests"),
        ("no-such-program", "not found"),
    ],
)
def test_a_wrong_command_is_found(shell: Shell, block: str, says: str) -> None:
    with pytest.raises(Failed, match=says):
        shell.script(block)


def test_wrong_blocks_of_other_languages_are_found(shell: Shell) -> None:
    with pytest.raises(Failed, match="printed"):
        console("$ raftka topics list\nno-such-topic\n", shell)
    with pytest.raises(Failed, match="NameError"):
        shell.python("no_such_name")
    with pytest.raises(Failed, match="1 failed"):
        shell.python("def test_it():\n    assert 1 == 2\n")
    with pytest.raises(ValueError, match="retention"):
        properties("log.retention.huors=1\n")
    with pytest.raises(ValueError, match="protcol"):
        properties("security.protocol=SSL\nsecurity.protcol=SSL\n")


def test_a_block_of_python_may_await(shell: Shell) -> None:
    assert shell.python("import trio\nawait trio.sleep(0)\nprint(trio.current_time() > 0)") == (
        "True\n"
    )
