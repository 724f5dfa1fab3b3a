"""The prompt on a terminal: lines, history, completion. Spark starts behind it."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from raftka.sql.answers import Words
from raftka.sql.client import SqlError
from raftka.sql.prompt.help import help_text
from raftka.sql.prompt.printing import FORMATS
from raftka.sql.prompt.texts import is_empty, statements_of
from raftka.sql.prompt.words import completions
from raftka.sql.server.folder import state_folder

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

    from raftka.sql.prompt.runner import Runner

PROMPT, NEXT_LINE = "sql> ", "...> "
LOOK_S = 1.0  # between two looks at the start of Spark
STARTING = ("idle", "starting")  # states of the server
COMMANDS = ("help", "output", "exit", "quit")  # of the prompt itself; they need no `;`
WORD = re.compile(r"[\w.$-]+$|`[^`]*$")


class PrivateHistory(FileHistory):
    """A file that only the user can read: statements may have secrets."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        super().__init__(str(path))


def _history() -> History:
    try:
        return PrivateHistory(state_folder() / "sql_history")
    except OSError:  # a home that cannot be written to
        return InMemoryHistory()


class WordCompleter(Completer):
    """Completes keywords of SQL, and names that the server knows."""

    def __init__(self) -> None:
        self.words = Words()

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        match = WORD.search(document.text_before_cursor)
        if match is None:
            return
        begun = match[0].lstrip("`").lower()
        for each in completions(self.words):
            if each.lstrip("`").lower().startswith(begun):
                yield Completion(each, -len(match[0]))


class Terminal:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self._completer = WordCompleter()
        self._status = "Spark starts"  # the line below the prompt
        self._is_over = False
        self._changed = threading.Event()  # words may be others, or it is over

    def run(self) -> int:
        """Read and run statements until the user leaves. Return the exit code."""
        session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=NEXT_LINE,
            history=_history(),
            completer=self._completer,
            complete_while_typing=False,
            key_bindings=_keys(),
            bottom_toolbar=lambda: self._status,
            refresh_interval=LOOK_S,
        )
        threading.Thread(target=self._follow_server, name="sql-start", daemon=True).start()
        try:
            while True:
                try:
                    text = session.prompt()
                    if not is_command(text):
                        self._run_statements(text)
                    elif self._run_command(text):
                        return 0
                except KeyboardInterrupt:  # the line is dropped
                    continue
                except EOFError:
                    return 0
        finally:
            self._is_over = True
            self._changed.set()

    def _run_statements(self, text: str) -> None:
        """The first one that fails ends them."""
        for each in statements_of(text)[0]:
            if self._runner.run(each, _print_count):
                break
        self._changed.set()

    def _run_command(self, text: str) -> bool:
        """Return whether it ends the prompt."""
        name, _, rest = text.strip().rstrip(";").strip().partition(" ")
        if name.lower() in ("exit", "quit"):
            return True
        if name.lower() == "help":
            print(help_text(rest.strip()), end="")
        elif rest.strip() in FORMATS:
            self._runner.output = rest.strip()
        else:
            print(f"output is one of {', '.join(FORMATS)}; it is {self._runner.output} now")
        return False

    def _follow_server(self) -> None:
        """Start the server where none runs; show the state of Spark; fetch words to complete, anew
        after each statement.
        """
        while not self._is_over:
            self._changed.clear()
            try:
                connection = self._runner.connection
                health = connection.health()
                if health["state"] == "ready":
                    self._status = f"Spark runs, {connection.address.url}"
                    self._completer.words = connection.words()
                elif health["state"] == "failed":
                    self._status = f"Spark did not start: {health['message']}"
                else:
                    self._status = f"Spark starts: {health['seconds']:.0f} s"
            except SqlError as error:
                self._status = str(error)
                health = {"state": "failed"}
            self._changed.wait(LOOK_S if health["state"] in STARTING else None)


def is_command(text: str) -> bool:
    """Return whether a text is for the prompt itself."""
    words = text.split()
    return bool(words) and words[0].lower().rstrip(";") in COMMANDS


def is_whole(text: str) -> bool:
    """Return whether Enter ends the text: all its statements have an end."""
    return is_command(text) or is_empty(statements_of(text)[1])


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _print_count(count: int | None, seconds: float) -> None:
    told = "done" if count is None else f"{count} row{'' if count == 1 else 's'}"
    print(f"{told} ({seconds:.2f} s)", flush=True)
