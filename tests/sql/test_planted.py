"""Planted bugs of the SQL server's door and life: a rule of another file finds each of them."""

import hmac
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from raftka.sql.client import SERVER_LOST, SqlError
from raftka.sql.prompt import runner
from raftka.sql.server import folder
from raftka.sql.server.launch import Wanted
from raftka.sql.server.server import SqlServer
from tests.kit.sql_server import TOKEN
from tests.sql import test_client, test_runner, test_server

Rule = Callable[[pytest.FixtureRequest], object]


def every_token_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hmac, "compare_digest", lambda one, another: True)


def the_beginning_of_the_token_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hmac, "compare_digest", lambda shown, token: shown.startswith(token[:-1]))


def the_lock_keeps_nobody_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(folder, "locked", lambda descriptor: True)


def the_lock_is_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    """The process starts, and the next program starts another one."""
    popen = subprocess.Popen

    def bug(*args: Any, pass_fds: tuple[int, ...], **more: Any) -> Any:
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            command = [*args[0][:-1], str(null)]
            return popen(command, pass_fds=(null,), **more)
        finally:
            os.close(null)

    patch.setattr(subprocess, "Popen", bug)


def others_can_read_the_folder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        folder.ServerFolder,
        "make",
        lambda found: found.path.mkdir(parents=True, exist_ok=True, mode=0o755),
    )


def logins_share_a_server(patch: pytest.MonkeyPatch) -> None:
    of = folder.ServerFolder.of
    patch.setattr(folder.ServerFolder, "of", lambda bootstrap, properties: of(bootstrap, {}))


def what_was_lost_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runner, "NO_SERVER", SERVER_LOST)


def refuses_tokens(request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue("server")
    for token in ("another", TOKEN[:-1]):
        test_server.test_without_the_token_nothing_is_done(server, token)


def starts_once(request: pytest.FixtureRequest) -> None:
    wanted: Wanted = request.getfixturevalue("wanted")
    test_client.test_a_server_is_started_once_for_many_programs(wanted)


def keeps_files_to_itself(request: pytest.FixtureRequest) -> None:
    test_client.test_its_files_are_for_its_user_alone(request.getfixturevalue("wanted"))


def parts_logins(request: pytest.FixtureRequest) -> None:
    test_client.test_each_cluster_and_login_has_a_server_of_its_own()


def sends_once(request: pytest.FixtureRequest) -> None:
    test_runner.test_a_statement_that_may_have_been_done_is_not_sent_again(
        request.getfixturevalue("capsys")
    )


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (every_token_is_taken, refuses_tokens),
        (the_beginning_of_the_token_is_enough, refuses_tokens),
        (the_lock_keeps_nobody_out, starts_once),
        (the_lock_is_not_passed_on, starts_once),
        (others_can_read_the_folder, keeps_files_to_itself),
        (logins_share_a_server, parts_logins),
        (what_was_lost_is_sent_again, sends_once),
    ],
    ids=lambda each: each.__name__,
)
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], rule: Rule, request: pytest.FixtureRequest
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        with pytest.raises((AssertionError, SqlError, IndexError)):
            rule(request)
