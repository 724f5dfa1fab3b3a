"""Ask a pipeline's page for JSON."""

import json
from typing import Any
from urllib.request import urlopen

from raftka.pipeline.page import ProjectPage


def ask(page: ProjectPage, path: str) -> Any:
    with urlopen(page.url + path, timeout=10) as answer:
        return json.loads(answer.read())
