"""Planted bugs of the SQL server's door and life: a rule of another file finds each of them."""

import hmac
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.sql.client import SERVER_LOST, SqlError
from raftka.sql.prompt import runner
from raftka.sql.server import folder, logins, site, statements
from raftka.sql.server.launch import Wanted
from raftka.sql.server.server import Door, SqlServer
from tests.kit.sql_server import TOKEN, FakeSession
from tests.sql import test_client, test_logins, test_runner, test_server

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


def the_first_password_is_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(logins.Logins, "_is_known", lambda self, name, digest: name in self._known)


def statements_are_everybodys(patch: pytest.MonkeyPatch) -> None:
    rows = statements.Statements.rows
    patch.setattr(statements.Statements, "rows", lambda self, user=None: rows(self))


def statements_of_others_can_be_ended(patch: pytest.MonkeyPatch) -> None:
    find = statements.Statements.find
    patch.setattr(statements.Statements, "find", lambda self, id, user=None: find(self, id))


def a_user_asks_with_the_servers_login(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(site.SqlSite, "_session_of", lambda self, user: self._engine.session())


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


def refuses_passwords(request: pytest.FixtureRequest) -> None:
    server, fake = request.getfixturevalue("door_for_users"), request.getfixturevalue("fake")
    test_logins.test_a_wrong_password_does_nothing(server, fake, "wrong")


def parts_users(request: pytest.FixtureRequest) -> None:
    server, fake = request.getfixturevalue("door_for_users"), request.getfixturevalue("fake")
    test_logins.test_a_user_does_not_see_or_end_statements_of_others(server)
    test_logins.test_a_user_has_a_session_of_the_own_login(server, fake)


@pytest.fixture
def door_for_users(fake: FakeSession) -> Iterator[SqlServer]:
    with SqlServer(lambda: fake, Door(TOKEN, login="PLAIN")) as server:
        yield server


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (the_first_password_is_kept_for_ever, refuses_passwords),
        (statements_are_everybodys, parts_users),
        (statements_of_others_can_be_ended, parts_users),
        (a_user_asks_with_the_servers_login, parts_users),
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
        with pytest.raises((AssertionError, SqlError, IndexError, pytest.fail.Exception)):
            rule(request)
