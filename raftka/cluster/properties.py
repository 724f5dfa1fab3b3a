"""server.properties as Kafka writes and reads it: the format of java.util.Properties. Knows no
setting by name.
"""

from collections.abc import Iterator, Mapping

ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """The last of two equal names wins, as in Java."""
    return dict(_split(line) for line in _logical_lines(text))


def render(properties: Mapping[str, str], heading: str) -> str:
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    return "\n".join(
        [
            *lines,
            *(f"{_escape(name, ' =:')}={_escape(value, '')}" for name, value in properties.items()),
            "",
        ]
    )


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and empty lines; a backslash at the end goes on in the next line, whose
    indentation is not part of it.
    """
    pending = ""
    for line in text.splitlines():
        part = line.lstrip(" \t\f")
        if not pending and (not part or part[0] in "#!"):
            continue
        pending += part
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """The name ends at the first unescaped `=`, `:` or blank; blanks around the separator belong to
    neither.
    """
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(line[:end]), _unescape(rest.rstrip())


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out, i = [], 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            i += 1
            if text[i] == "u":
                char = chr(int(text[i + 1 : i + 5], 16))  # ValueError: not a valid file
                i += 4
            else:
                char = ESCAPES.get(text[i], text[i])
        out.append(char)
        i += 1
    return "".join(out)


def _escape(text: str, also: str) -> str:
    special = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"} | {
        char: "\\" + char for char in also
    }
    escaped = "".join(special.get(char, char) for char in text)
    return "\\" + escaped if escaped.startswith((" ", "#", "!")) else escaped
