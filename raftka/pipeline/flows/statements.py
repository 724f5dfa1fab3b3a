"""CREATE STREAM, CREATE TABLE and CREATE SINK: the part before the query, which is Spark's. Knows
files and no Spark.

    CREATE STREAM fast AS SELECT truck, speed_kmh FROM trucks WHERE speed_kmh > 90
    CREATE TABLE per_minute AS SELECT window.start AS minute, count(*) AS n FROM trucks GROUP BY
    window(_timestamp, '1 minute') CREATE SINK fast_trucks INTO TOPIC 'fast_trucks' KEY truck WITH
    ('kafka.compression.type' = 'zstd') AS SELECT * FROM fast CREATE SINK kept INTO DELTA
    'lake/fast' AS SELECT * FROM fast CREATE SINK newest INTO DELTA 'lake/newest' KEY truck WITH
    ('order' = 'at') AS SELECT * FROM fast

Statements are files of the project, `sql/NAME.sql`.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.flows.streams import NAME, Output
from raftka.pipeline.project import TABLES

FOLDER = "sql"
LONGEST = 64 << 10  # bytes of a statement
LONGEST_NAME = 100
MOST = 200  # statements of a project
SPACE = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
WORD = re.compile(r"\w+")
TEXT = re.compile(r"'((?:[^']|'')*)'")
FORMS = (
    "CREATE STREAM name AS SELECT, CREATE TABLE name AS SELECT, CREATE SINK name INTO TOPIC "
    "'topic' [KEY column] [WITH ('option' = 'value')] "
    "AS SELECT, CREATE SINK name INTO DELTA 'path' [KEY column, ...] [WITH ('option' = 'value')] "
    "AS SELECT"
)


@dataclass(frozen=True, slots=True)
class Statement:
    kind: str  # STREAM, TABLE or SINK
    name: str
    query: str
    text: str
    topic: str | None = None
    path: str | None = None  # as it was written: it counts from the project, or is a URL
    key: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The destination of its rows; a STREAM has none of its own."""
        if self.kind == "TABLE":
            return f"delta {TABLES}/{self.name}"
        if self.topic is not None:
            return f"topic {self.topic}"
        return f"delta {self.path}" if self.path is not None else ""

    def mentions(self, name: str) -> bool:
        """Return whether its query may read `name`: it has such a word."""
        return name.lower() in {word.lower() for word in WORD.findall(self.query)}


class _Reader:
    """The words of a statement from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._skip()

    def _skip(self) -> None:
        match = SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _refused(self, wanted: str) -> OptionRefused:
        line = self._text.count("\n", 0, self._at) + 1
        here = self._text[self._at : self._at + 20].split("\n")[0] or "the end"
        return OptionRefused(
            f"line {line}: {wanted} should be where {here!r} is. There are: {FORMS}"
        )

    def one_of(self, *words: str) -> str:
        found = self.if_one_of(*words)
        if found is None:
            raise self._refused(" or ".join(words))
        return found

    def if_one_of(self, *words: str) -> str | None:
        match = WORD.match(self._text, self._at)
        if match is None or match[0].upper() not in words:
            return None
        self._at = match.end()
        self._skip()
        return match[0].upper()

    def name(self, what: str) -> str:
        match = NAME.match(self._text, self._at)
        if (
            match is None
            or len(match[0]) > LONGEST_NAME
            or re.match(r"\w", self._text[match.end() : match.end() + 1])
        ):
            raise self._refused(f"{what} (letters, digits and _, a letter first)")
        self._at = match.end()
        self._skip()
        return match[0]

    def names(self, what: str) -> list[str]:
        """Several, with commas between them."""
        found = [self.name(what)]
        while self._text[self._at : self._at + 1] == ",":
            self.symbol(",")
            found.append(self.name(what))
        return found

    def quoted(self, what: str) -> str:
        match = TEXT.match(self._text, self._at)
        if match is None or not match[1].strip():
            raise self._refused(f"{what} in single quotes")
        self._at = match.end()
        self._skip()
        return match[1].replace("''", "'")

    def symbol(self, *signs: str) -> str:
        found = self._text[self._at : self._at + 1]
        if found not in signs or not found:
            raise self._refused(" or ".join(signs))
        self._at += 1
        self._skip()
        return found

    def query(self) -> str:
        """All that is left."""
        rest = self._text[self._at :].rstrip().removesuffix(";").rstrip()
        if not re.match(r"(SELECT|WITH)\b", rest, re.IGNORECASE):
            raise self._refused("SELECT or WITH")
        return rest


def parse(text: str) -> Statement:
    """One statement. Raises OptionRefused."""
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        raise OptionRefused(f"the statement has more than {LONGEST} bytes")
    reader = _Reader(text)
    reader.one_of("CREATE")
    kind = reader.one_of("STREAM", "TABLE", "SINK")
    name = reader.name(f"the name of the {kind.lower()}")
    topic = path = key = None
    keys: list[str] = []
    options: dict[str, str] = {}
    if kind == "SINK":
        reader.one_of("INTO")
        if reader.one_of("TOPIC", "DELTA") == "TOPIC":
            topic = reader.quoted("the topic")
            key = reader.name("a column") if reader.if_one_of("KEY") else None
        else:
            path = reader.quoted("the path")
            keys = reader.names("a column") if reader.if_one_of("KEY") else []
        options = _options(reader) if reader.if_one_of("WITH") else {}
        if keys and any(each.lower() == "key" for each in options):
            raise OptionRefused("key stands twice: behind KEY and in WITH")
        options |= {"key": ",".join(keys)} if keys else {}
    reader.one_of("AS")
    return Statement(kind, name, reader.query(), text.strip() + "\n", topic, path, key, options)


def _options(reader: _Reader) -> dict[str, str]:
    reader.symbol("(")
    found: dict[str, str] = {}
    while True:
        name = reader.quoted("the name of an option")
        reader.symbol("=")
        found[name] = reader.quoted(f"the value of {name}")
        if reader.symbol(",", ")") == ")":
            return found


def parse_drop(text: str) -> str:
    """The name in DROP STREAM|TABLE|SINK name. Raises OptionRefused."""
    match = re.fullmatch(r"\s*DROP\s+(?:STREAM|TABLE|SINK)\s+(\w+)\s*;?\s*", text, re.IGNORECASE)
    if match is None:
        raise OptionRefused("this is no DROP STREAM name, DROP TABLE name or DROP SINK name")
    return match[1]


# the files of a project


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a statement with this name. Raise OptionRefused for a wrong name."""
    if NAME.fullmatch(name) is None or len(name) > LONGEST_NAME:
        raise OptionRefused(
            f"{name!r} is no name of a stream, table or sink: letters, digits and _, a letter first"
        )
    return folder / FOLDER / f"{name}.sql"


def statements(folder: Path) -> Iterator[Statement]:
    """Those of a project, by name. Raises PipelineError."""
    paths = sorted((folder / FOLDER).glob("*.sql"))
    if len(paths) > MOST:
        raise PipelineError(f"{folder / FOLDER} has {len(paths)} statements: {MOST} are allowed")
    for path in paths:
        try:
            found = parse(path.read_text())
        except (OptionRefused, UnicodeDecodeError) as error:
            raise OptionRefused(f"{path}: {error}") from None
        if found.name != path.stem:
            raise OptionRefused(
                f"{path} has the statement of {found.name}: its file is to be {found.name}.sql"
            )
        yield found


def lake_of(folder: Path, found: Statement) -> str:
    """Return the path of the rows of a table, or of a sink into a lake."""
    if found.path is None:
        return str((folder / TABLES / found.name).resolve())
    return found.path if "://" in found.path else str((folder / found.path).resolve())


def lakes(folder: Path) -> list[Output]:
    """The tables and lakes of a project's statements, as streams.yml would have them. Raises
    PipelineError.
    """
    found = [each for each in statements(folder) if each.kind == "TABLE" or each.path is not None]
    return [
        Output(each.name, None, None, lake_of(folder, each), None, each.options) for each in found
    ]


def statement(folder: Path, name: str) -> Statement:
    """Raises OptionRefused when there is none of that name."""
    path = file_of(folder, name)
    if not path.is_file():
        known = ", ".join(each.name for each in statements(folder)) or "none at all"
        raise OptionRefused(f"no statement of this project has the name {name}; there are: {known}")
    return parse(path.read_text())


def write(folder: Path, found: Statement) -> None:
    """Whole at once. Raises PipelineError when there is one of that name, or there are too many."""
    path = file_of(folder, found.name)
    path.parent.mkdir(exist_ok=True)
    known = [each.stem.lower() for each in path.parent.glob("*.sql")]
    if found.name.lower() in known:
        raise PipelineError(
            f"{found.name} is there already: `raftka pipeline remove {folder} {found.name}` "
            "removes it"
        )
    if len(known) >= MOST:
        raise PipelineError(f"the project has {MOST} statements already, as many as are allowed")
    fresh = path.with_name(f".{found.name}.{os.getpid()}")
    fresh.write_text(found.text)
    fresh.replace(path)


def check_unused(folder: Path, name: str) -> None:
    """Raises PipelineError when another statement reads it."""
    users = [each.name for each in statements(folder) if each.name != name and each.mentions(name)]
    if users:
        raise PipelineError(
            f"{', '.join(users)} may read {name}: remove {'it' if len(users) == 1 else 'these'} "
            "first"
        )
