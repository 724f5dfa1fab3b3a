"""Java's properties files, in which Kafka has the settings of brokers and clients."""

import re


def parse_properties(text: str) -> dict[str, str]:
    """A properties file: name=value lines, `#` comments, a backslash at the end of a line goes on
    in the next.
    """
    joined = re.sub(r"\\\r?\n[ \t]*", "", text)
    lines = (line.strip() for line in joined.splitlines())
    pairs = (
        re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1)
        for line in lines
        if line and line[0] not in "#!"
    )
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}
