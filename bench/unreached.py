"""Why no random life reaches a guard: by file and text, the first that fits. What is not listed here somebody should look at."""

import re

REASONS: tuple[tuple[str, str, str], ...] = ()  # of the file, of the line: regular expressions; the reason
UNKNOWN = "NO REASON KNOWN"


def reason(file: str, text: str) -> str:
    return next((why for where, what, why in REASONS if re.search(where, file) and re.search(what, text)), UNKNOWN)
