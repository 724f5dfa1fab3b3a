"""A real Chromium for tests of pages, over its own protocol (CDP) and a pipe.

Elements are found as a user of a screen reader finds them: by role and name of the accessibility
tree. Clicks and keys are real input events. What the browser logs as an error is in `Page.errors`.
"""

import base64
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WHY_NOT = "there is no Chromium (on Debian: apt install chromium)"
WAIT_S = 60.0  # for an answer of the browser, and for a condition of a page
# the protocol's pipes are descriptors 3 and 4 of the browser
TRAMPOLINE = """import fcntl, os, sys
given = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for number, each in enumerate(given, 3):
    os.dup2(each, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-proxy-server",
    "--no-sandbox",  # tests may run as root, where the sandbox cannot
    "--password-store=basic",
)
# names of keys, with code and the number that old handlers read
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Space": ("Space", 32, " "),
    "End": ("End", 35, ""),
    "Home": ("Home", 36, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "Backspace": ("Backspace", 8, ""),
}
MODIFIERS = {"Shift": 8, "Control": 2}
# [x, y], or null while the element moves, has no place, or another one is before it; "detached" if
# it is no part of the page any more
STEADY = {
    "functionDeclaration": """async function () {
        this.scrollIntoViewIfNeeded();
        const middle = () => {
            const { left, top, width, height } = this.getBoundingClientRect();
            return [left + width / 2, top + height / 2];
        };
        const frame = () => new Promise((done) => setTimeout(done, 20));
        const [x, y] = middle();
        if (!this.isConnected) return "detached";
        for (let at = 0; at < 2; at++) {
            await frame();
            const [left, top] = middle();
            if (left !== x || top !== y) return null;
        }
        const hit = document.elementFromPoint(x, y);
        const isOver = [this, this.labels?.[0]].some((each) => each?.contains(hit));
        return hit && (isOver || hit.contains(this)) ? [x, y] : null;
    }""",
    "awaitPromise": True,
    "returnByValue": True,
}

# how the browser says that an element is no part of the page any more
IS_GONE = re.compile("detached|(No|Could not find) node with given id|not belong to the document")
NOTE_CLICK = {
    "functionDeclaration": """function () {
        this.addEventListener("click", () => { this.wasClicked = true; }, { capture: true });
    }"""
}
WAS_CLICKED = {
    "functionDeclaration": """async function () {
        if (!this.wasClicked) await new Promise((done) => setTimeout(done, 20));
        return this.wasClicked === true;
    }""",
    "awaitPromise": True,
    "returnByValue": True,
}


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser refused a command, ended, or a condition did not come true in time."""


class NodeGone(BrowserError):
    """The element is no part of the page any more: it was drawn anew."""


class Browser:
    """One Chromium. Not for several threads."""

    def __init__(self, process: subprocess.Popen[bytes], read_end: int, write_end: int) -> None:
        self._process = process
        self._write_end = write_end
        self._last = 0
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._pages: dict[str, Page] = {}
        threading.Thread(target=self._read, args=(read_end,), name="chromium", daemon=True).start()

    def _read(self, read_end: int) -> None:
        buffer = b""
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while data := pipe.read(1 << 16):
                *messages, buffer = (buffer + data).split(b"\0")
                for message in messages:
                    self._answers.put(json.loads(message))
        self._answers.put(None)

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result. Raises BrowserError."""
        self._last += 1
        message: dict[str, object] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 2 * WAIT_S
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BrowserError(f"{method}: no answer of the browser") from None
            if answer is None:
                raise BrowserError(f"{method}: the browser has ended")
            if answer.get("id") == self._last:
                if "error" in answer:
                    text = f"{method}: {answer['error'].get('message')}"
                    raise NodeGone(text) if IS_GONE.search(text) else BrowserError(text)
                result: dict[str, Any] = answer["result"]
                return result
            if page := self._pages.get(answer.get("sessionId", "")):
                page.on_event(answer["method"], answer["params"])

    def open_page(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> "Page":
        """Return a page with cookies of its own. `width`, `height`: in CSS pixels."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"], context)
        self._pages[attached["sessionId"]] = page
        page.prepare(width, height, dark=dark)
        return page

    def close_page(self, page: "Page") -> None:
        self._pages.pop(page.session, None)
        self.call("Target.disposeBrowserContext", browserContextId=page.context)

    def close(self) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(WAIT_S)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        os.close(self._write_end)


@contextmanager
def launch_browser(program: str) -> Iterator[Browser]:
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="raftka-chromium-", ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [
                *(sys.executable, "-S", "-E", "-c", TRAMPOLINE, str(to_read), str(from_write)),
                *(program, *OPTIONS, f"--user-data-dir={home}"),
            ],
            pass_fds=(to_read, from_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": home},
        )
        os.close(to_read)
        os.close(from_write)
        browser = Browser(process, from_read, to_write)
        try:
            yield browser
        finally:
            browser.close()


def is_of_earlier_document(error: BrowserError) -> bool:
    """Return whether the document went while it was asked."""
    return bool(re.search(r"navigated|destroyed|Cannot find context|collected", str(error)))


class Node(NamedTuple):
    """An element as assistive technology sees it."""

    role: str
    name: str
    backend_id: int
    properties: Mapping[str, Any]


class Page:
    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser, self.session, self.context = browser, session, context
        self._logged: list[str] = []  # errors
        self._allowed: list[re.Pattern[str]] = []

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        return self._browser.call(method, self.session, **parameters)

    def prepare(self, width: int, height: int, *, dark: bool) -> None:
        for domain in ("Page", "Runtime", "Log", "DOM", "Accessibility", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.set_dark(dark)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def set_dark(self, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    def on_event(self, method: str, event: Mapping[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "")
            self._logged.append(f"{details['text']} {thrown}")
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            self._logged.append(" ".join(str(each.get("value", "")) for each in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            entry = event["entry"]
            self._logged.append(f"{entry['text']} {entry.get('url', '')}")

    @property
    def errors(self) -> list[str]:
        """Return the texts that the browser has logged until now and no test allows."""
        return [
            text for text in self._logged if not any(each.search(text) for each in self._allowed)
        ]

    def allow_error(self, pattern: str) -> None:
        """Allow errors that a test brings about on purpose, also when they came before this call:
        an answer 403, a server that is gone.
        """
        self._allowed.append(re.compile(pattern))

    def goto(self, url: str) -> None:
        """Open a page, and return when its document is loaded."""
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        # a change of what stands after # loads nothing
        self.wait_for("document.readyState === 'complete'")

    def reload(self) -> None:
        """Load the document anew, and return when that is done."""
        self.evaluate("window.isEarlier = true")
        self.call("Page.reload")
        self.wait_for("!window.isEarlier && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression; a promise is waited for. Raises BrowserError."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if details := answer.get("exceptionDetails"):
            thrown = details.get("exception", {}).get("description", details["text"])
            raise BrowserError(f"{expression}: {thrown}")
        return answer["result"].get("value")

    def wait_for(self, condition: str, within_s: float = WAIT_S) -> None:
        """Return when an expression of JavaScript is true; while it throws, it is not."""
        deadline = time.monotonic() + within_s
        poll = f"""(async () => {{
            for (const end = performance.now() + 1000; performance.now() < end; ) {{
                try {{ if (await ({condition})) return true; }} catch {{}}
                await new Promise((done) => setTimeout(done, 20));
            }}
            return false;
        }})()"""
        while time.monotonic() < deadline:
            try:
                if self.evaluate(poll):
                    return
            except BrowserError as error:
                if not is_of_earlier_document(error):
                    raise  # else the next document is asked
        raise BrowserError(f"not true within {within_s:.0f} s: {condition}\n{self.text()[:3000]}")

    def wait_for_text(self, text: str) -> None:
        self.wait_for(f"document.body.innerText.includes({json.dumps(text)})")

    def text(self, css: str = "body") -> str:
        """Return the visible text of the first element that a CSS selector finds."""
        return str(self.evaluate(f"document.querySelector({json.dumps(css)})?.innerText ?? ''"))

    def texts(self, css: str) -> list[str]:
        found = self.evaluate(
            f"[...document.querySelectorAll({json.dumps(css)})].map((each) => each.innerText)"
        )
        return [str(each) for each in found]

    def nodes(self, role: str, name: str | re.Pattern[str] | None = None) -> list[Node]:
        """Return the elements with a role and, when given, exactly this name (or a pattern)."""
        document = self.call("DOM.getDocument", depth=0)["root"]["nodeId"]
        found = self.call("Accessibility.queryAXTree", nodeId=document, role=role)["nodes"]
        nodes = [
            Node(
                each["role"]["value"],
                " ".join(str(each.get("name", {}).get("value", "")).split()),
                each["backendDOMNodeId"],
                {one["name"]: one["value"].get("value") for one in each.get("properties", [])},
            )
            for each in found
            if not each["ignored"]
        ]
        if name is None:
            return nodes
        if isinstance(name, str):
            return [each for each in nodes if each.name == name]
        return [each for each in nodes if name.search(each.name)]

    def wait_for_node(self, role: str, name: str | re.Pattern[str] | None = None) -> Node:
        deadline = time.monotonic() + WAIT_S
        while not (found := self.nodes(role, name)):
            if time.monotonic() > deadline:
                there = sorted({each.name for each in self.nodes(role)})
                raise BrowserError(f"no {role} {name!r}; there are {there}\n{self.text()[:3000]}")
            self.evaluate("new Promise((done) => setTimeout(done, 20))")
        return found[0]

    def click(self, role: str, name: str | re.Pattern[str]) -> None:
        """Wait for an element and press the mouse in its middle."""
        self._act_on(lambda: self.wait_for_node(role, name), self.click_node)

    def click_css(self, css: str) -> None:
        def find() -> Node:
            self.wait_for(f"document.querySelector({json.dumps(css)})")
            root = self.call("DOM.getDocument", depth=0)["root"]["nodeId"]
            node = self.call("DOM.querySelector", nodeId=root, selector=css)["nodeId"]
            described = self.call("DOM.describeNode", nodeId=node)["node"]
            return Node("", css, described["backendNodeId"], {})

        self._act_on(find, self.click_node)

    def _act_on(self, find: Callable[[], Node], act: Callable[[Node], object]) -> None:
        """Find an element and act on it. One that goes meanwhile has been drawn anew: it is looked
        for again.
        """
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                act(find())
                return
            except NodeGone:
                if time.monotonic() > deadline:
                    raise

    def click_node(self, node: Node) -> None:
        """Press the mouse in the middle of an element, again if something moved and the element did
        not get the click.
        """
        element = self.call("DOM.resolveNode", backendNodeId=node.backend_id)["object"]["objectId"]
        self._call_on(element, NOTE_CLICK)
        deadline = time.monotonic() + WAIT_S
        while True:
            x, y = self._steady_middle(node, element, deadline)
            at = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
            self.call("Input.dispatchMouseEvent", type="mousePressed", **at)
            self.call("Input.dispatchMouseEvent", type="mouseReleased", **at)
            try:
                if self._call_on(element, WAS_CLICKED):
                    return
            except BrowserError as error:
                if is_of_earlier_document(error):
                    return  # the click has led to another one
                raise

    def _steady_middle(self, node: Node, element: str, deadline: float) -> tuple[float, float]:
        """Wait until the middle of an element stays where it is for two frames with nothing before
        it, as a user does: live data move what is on a page.
        """
        while not (place := self._call_on(element, STEADY)):
            if time.monotonic() > deadline:
                raise BrowserError(f"{node.role} {node.name!r} has no place on the page")
        if place == "detached":
            raise NodeGone(f"{node.role} {node.name!r} is detached from the page")
        x, y = place
        return x, y

    def _call_on(self, element: str, function: Mapping[str, Any]) -> Any:
        answer = self.call("Runtime.callFunctionOn", **function, objectId=element)
        return answer["result"].get("value")

    def fill(self, name: str, text: str, role: str = "textbox") -> None:
        """Replace the text of a field, as a user who selects all and types."""
        self._act_on(
            lambda: self.wait_for_node(role, name),
            lambda node: self.call("DOM.focus", backendNodeId=node.backend_id),
        )
        self.evaluate("document.activeElement.select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.press("Backspace")

    def press(self, *keys: str) -> None:
        """Press keys one after the other: names of KEYS, "Shift+Tab", "Control+Enter", or single
        characters.
        """
        for key in keys:
            with_it, plus, rest = key.partition("+")
            modifier, name = (MODIFIERS[with_it], rest) if plus and rest else (0, key)
            code, number, text = KEYS.get(name, (f"Key{name.upper()}", ord(name[0].upper()), name))
            event = {
                "key": " " if name == "Space" else name,
                "code": code,
                "windowsVirtualKeyCode": number,
                "modifiers": modifier,
            }
            down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
            self.call("Input.dispatchKeyEvent", **event, **down)
            self.call("Input.dispatchKeyEvent", **event, type="keyUp")

    def focused(self) -> str:
        """Return role-like tag and text of the element that has the focus, for keyboard tests."""
        return str(
            self.evaluate(
                "(({localName, ariaLabel, innerText}) => "
                "`${localName} ${(ariaLabel || innerText || '').trim()}`)(document.activeElement)"
            )
        )

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a PNG of the viewport, or of the whole page.

        The pages scroll inside of main: `whole` makes the viewport as high as that needs.
        """
        if whole:
            width, height = self.evaluate(
                "[innerWidth, Math.max(innerHeight, (document.querySelector('main')?.scrollHeight "
                "?? 0) + (document.querySelector('.bar')?.offsetHeight ?? 0))]"
            )
            self.resize(width, height)
        taken = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(taken["data"]))
