"""Files of pages/: they are listed when the console starts, and no other path leads to a file."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from raftka.console.answers import VARY, takes_gzip
from raftka.console.protection import HEADERS
from raftka.http.messages import Request, Response

PAGES = Path(__file__).parent / "pages"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
}
IS_TEXT = (".html", ".css", ".js", ".json", ".svg", ".txt")
AGAIN = "Cache-Control: no-cache"  # a browser keeps the file, and asks whether it is the same


@dataclass
class File:
    path: Path
    taken_ns: int = -1  # the time of the change that `body` is of

    @cached_property
    def content_type(self) -> str:
        return TYPES[self.path.suffix]

    def load(self) -> None:
        """Read the file if it has changed. Raises OSError."""
        changed_ns = self.path.stat().st_mtime_ns
        if changed_ns != self.taken_ns:
            self.body = self.path.read_bytes()
            self.packed = gzip.compress(self.body, mtime=0) if self.path.suffix in IS_TEXT else None
            self.tag = f'"{hashlib.blake2b(self.body, digest_size=12).hexdigest()}"'
            self.taken_ns = changed_ns


class Static:
    def __init__(self, root: Path = PAGES) -> None:
        self._files = {
            f"/{path.relative_to(root).as_posix()}": File(path)
            for path in sorted(root.rglob("*"))
            if path.suffix in TYPES and path.is_file()
        }
        if "/index.html" in self._files:
            self._files["/"] = self._files["/index.html"]

    def has(self, path: str) -> bool:
        return path in self._files

    def answer(self, request: Request) -> Response:
        """`request`: of a path that is there. Raises OSError."""
        file = self._files[request.path]
        file.load()
        packed = file.packed if takes_gzip(request) else None
        # a tag of each form, for caches between
        tag = file.tag if packed is None else f'{file.tag[:-1]}-gzip"'
        headers = [AGAIN, VARY, f"ETag: {tag}", *HEADERS]
        if request.headers.get(b"if-none-match", b"").decode("latin-1") == tag:
            return Response(304, file.content_type, b"", headers)
        if packed is not None:
            headers.append("Content-Encoding: gzip")
        return Response(200, file.content_type, file.body if packed is None else packed, headers)
