"""The console's pages as their list in js/app.js has them, with an example for each name."""

import re
from pathlib import Path
from typing import NamedTuple

PAGES = Path(__file__).parents[3] / "raftka" / "console" / "pages"
ROW = re.compile(r'\{\s*path: "([^"]+)",.*?import\("\.\./(views/\w+\.js)"\)', re.DOTALL)
EXAMPLES = {
    ":topic": "orders",
    ":group": "billing",
    ":subject": "orders-value",
    ":broker": "1",
}
TABS = {
    "views/topic.js": ("partitions", "groups", "settings"),
    "views/group.js": ("members", "topics", "history"),
}
# what a page shows is there: it does not wait for its first answer
SETTLED = "document.querySelector('main h1, main .problem') && !document.querySelector('.waiting')"


class PageOfList(NamedTuple):
    path: str  # after #, with examples in the place of names
    module: str  # below PAGES


def listed_pages() -> list[PageOfList]:
    listed, _, _ = (PAGES / "js" / "app.js").read_text().partition("const ENTRIES")
    rows = ROW.findall(listed)
    assert rows
    return [
        PageOfList("/".join(EXAMPLES.get(each, each) for each in path.split("/")), module)
        for path, module in rows
    ]
