"""axe in a page: its script, and what it finds."""

import importlib.util
import json
from pathlib import Path

import pytest

from tests.kit.browser import Page
from tests.kit.toolchains import Missing, Toolchains

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# pixels that main, which scrolls, is wider than its place; wide tables scroll by themselves
TOO_WIDE = (
    "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('main'))"
)


def axe_script(*, fetch: bool) -> str:
    """Return the newest that has been fetched, else that of the package axe-core-python. Skips the
    test where there is none.
    """
    try:
        return Toolchains(fetch=fetch).axe().read_text()
    except Missing as missing:
        found = importlib.util.find_spec("axe_core_python")
        if found is None or found.origin is None:
            pytest.skip(str(missing))
        return (Path(found.origin).parent / "axe.min.js").read_text()


def check_with_axe(page: Page, script: str) -> list[str]:
    """Return the findings, each with the elements that it is about."""
    page.evaluate(f"{script}; null")
    options = {"runOnly": {"type": "tag", "values": TAGS}}
    found = page.evaluate(f"axe.run(document, {json.dumps(options)})")
    return [
        f"{each['id']}: {each['help']}: " + "; ".join(node["html"][:200] for node in each["nodes"])
        for each in found["violations"]
    ]
