"""A run's folder as one page that needs nothing else: verdict, what happened over time with the
faults behind it, anomalies, how to do it again.

Reads what simulated and live runs leave alike (history, faults, samples, verdict and plan); what a
folder does not have the page leaves out.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from raftka.chaos.history import History, Operation, load
from raftka.chaos.report_series import Series, Span, Witnesses, keys_of, lines_of, series_of, spans
from raftka.chaos.report_svg import COLOURS, LEFT, RIGHT, WIDTH, Axis, curves, lanes, legend
from raftka.json_values import Json, JsonObject

HERE = Path(__file__).parent
GROUP_ORDER = ("process", "network", "disk", "clock", "cluster")
SHOWN = 200  # anomalies
WITH_WITNESSES = 40
OPERATION_CHARACTERS = 400
GROUPS = {
    "clock": ("clock", "skew"),
    "disk": ("disk", "flush", "power", "file", "bit-flip", "torn", "sector", "write", "directory"),
    "network": (
        "cut",
        "part",
        "isolat",
        "link",
        "deaf",
        "ring",
        "one-way",
        "loss",
        "delay",
        "network",
        "split",
    ),
    "process": ("kill", "pause", "restart", "stop", "crash", "cpu", "shutdown", "start"),
}


def report(folder: Path) -> Path:
    """Writes FOLDER/report.html. Raises OSError when there is no run, HistoryFailed for what is no
    history.
    """
    page = folder / "report.html"
    page.write_text(_Page(folder).html(), encoding="utf-8")
    return page


def group_of(kind: str) -> str:
    return next(
        (group for group, words in GROUPS.items() if any(word in kind.lower() for word in words)),
        "cluster",
    )


class _Page:
    def __init__(self, folder: Path) -> None:
        self.verdict: Mapping[str, Json] = json.loads(
            (folder / "verdict.json").read_text(encoding="utf-8")
        )
        self.plan: Mapping[str, Json] = json.loads(_text(folder / "plan.json") or "{}")
        self.samples: Sequence[Mapping[str, Json]] = _rows(folder / "samples.jsonl")
        with (folder / "history.jsonl").open(encoding="utf-8") as lines:
            self.history: History = load(lines)
        faults = [
            each for each in _rows(folder / "faults.jsonl") if each.get("until_s") is not None
        ]
        ends = [each["until_s"] for each in faults] + [each["at_s"] for each in self.samples]
        self.series: Series = series_of(self.history, max(ends, default=1.0))
        self.faults = [
            Span(
                each["at_s"],
                max(each["until_s"], each["at_s"]),
                (each["kind"], each["what"], group_of(each["kind"])),
            )
            for each in faults
        ]
        self.axis = Axis(self.series.seconds, self.faults)
        self.figures: Mapping[str, Json] = self.verdict.get("figures", {})

    def html(self) -> str:
        shape = json.dumps([WIDTH, LEFT, RIGHT])
        told = json.dumps(
            [[each.from_s, each.to_s, each.what[0], each.what[1]] for each in self.faults]
        ).replace("<", "\\u003c")
        return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>raftka chaos: {escape(str(self.verdict["outcome"]))}</title>
<style>{_text(HERE / "report.css")}</style></head>
<body><main>
{self._head()}{self._over_time()}{self._of_the_cluster()}{self._anomalies()}{self._again()}
</main><div id="at"></div>
<script type="application/json" id="faults">{told}</script>
<script type="application/json" id="shape">{shape}</script>
<script>{_text(HERE / "report.js")}</script>
</body></html>
"""

    # the head

    def _head(self) -> str:
        outcome = str(self.verdict["outcome"])
        kind = (
            "live: real processes, real clients"
            if self.plan.get("kind") == "live"
            else f"simulated, plan {self.plan.get('plan', '?')}"
        )
        said = [
            kind,
            f"seed {self.plan.get('seed', '?')}",
            f"{self.series.seconds:.0f} s",
            f"commit {self.plan.get('commit') or '?'}",
        ]
        if self.verdict.get("reason"):
            said.append(str(self.verdict["reason"]))
        tiles = "".join(
            f'<div class="tile {classes}"><b>{escape(value)}</b><span>{name}</span></div>'
            for name, value, classes in self._tiles()
        )
        return (
            f'<h1>raftka chaos <span class="badge {escape(outcome)}">{escape(outcome)}</span></h1>'
            f'<p class="sub">{escape(" · ".join(said))}</p><div class="tiles">{tiles}</div>'
        )

    def _tiles(self) -> Iterable[tuple[str, str, str]]:
        operations = self.history.operations
        acknowledged = sum(len(each.sends) for each in operations if each.outcome == "ok")
        yield "operations", f"{len(operations):,}", ""
        yield "records sent", f"{sum(len(each.sends) for each in operations):,}", ""
        yield "acknowledged", f"{acknowledged:,}", ""
        yield (
            "read",
            f"{sum(len(records) for each in operations for records in each.polled.values()):,}",
            "",
        )
        yield "faults", f"{len(self.faults):,}", ""
        counts = Counter(
            self.verdict.get("counts")
            or Counter(each["kind"] for each in self.verdict.get("anomalies", ()))
        )
        lost = sum(counts[kind] for kind in ("lost-write", "unseen", "torn-transaction"))
        others = (
            sum(counts.values())
            + len(self.verdict.get("violations", ()))
            - lost
            - counts["duplicate"]
        )
        for name, count in (
            ("lost", lost),
            ("duplicates", counts["duplicate"]),
            ("other kinds", max(0, others)),
        ):
            yield name, f"{count:,}", "bad" if count else "zero"
        if self.figures.get("healed_after_s", -1) >= 0:
            yield "healed after", f"{self.figures['healed_after_s']:.1f} s", ""

    # over time

    def _over_time(self) -> str:
        series, axis = self.series, self.axis
        kinds = sorted(
            {each.what[0] for each in self.faults},
            key=lambda kind: (GROUP_ORDER.index(group_of(kind)), kind),
        )
        rows = [
            (
                kind,
                [
                    (each, f"mark {each.what[2]}", ": ".join(each.what[:2]))
                    for each in self.faults
                    if each.what[0] == kind
                ],
            )
            for kind in kinds
        ]
        groups = [
            group for group in GROUP_ORDER if any(each.what[2] == group for each in self.faults)
        ]
        marks = "".join(f'<span><i class="{group}"></i>{group}</span>' for group in groups)
        top = series.usual_top
        highest = max(
            (value or 0.0 for _, value in (*series.acknowledged, *series.read)), default=0.0
        )
        cut = f"; the last reads of everything come up to {highest:,.0f}" if highest > top else ""
        return "".join(
            (
                f'<h2>Faults</h2><p class="legend">{marks}</p>' + lanes(axis, rows, banded=False)
                if self.faults
                else "",
                f"<h2>Throughput <small>records a second{cut}</small></h2>"
                + legend(("acknowledged", "read")),
                curves(
                    axis,
                    {"acknowledged": series.acknowledged, "read": series.read},
                    height=130,
                    top=top,
                ),
                "<h2>Latency of writes <small>milliseconds, from sent to acknowledged</small></h2>"
                + legend(series.latency_ms),
                curves(axis, series.latency_ms, height=130, logarithmic=True),
                "<h2>Troubles <small>operations a second that failed, or have an unknown "
                "result</small></h2>" + legend(series.troubles, 7),
                curves(axis, series.troubles, height=60, first_colour=7),
            )
        )

    def _of_the_cluster(self) -> str:
        samples, axis = self.samples, self.axis
        if not samples:
            return ""
        nodes = sorted({node for each in samples for node in each.get("alive", ())})
        alive = [(f"node {node}", self._alive(node)) for node in nodes]
        leaders = [(key, self._leaders(key, nodes)) for key in keys_of(samples, "leaders")]
        ends = lines_of(samples, "high_watermarks")
        colours = "".join(
            f'<span><i class="c{self._colour(node, nodes)}"></i>node {node}</span>'
            for node in nodes
        )
        colours = f'<p class="legend">{colours}<span><i class="none"></i>nobody</span></p>'
        return "".join(
            (
                f"<h2>Nodes <small>that run</small></h2>{lanes(axis, alive)}",
                "<h2>Leaders and ISR <small>pale: not all replicas are in "
                f"sync</small></h2>{colours}",
                lanes(axis, leaders, banded=False),
                "<h2>Offsets <small>high "
                f"watermarks</small></h2>{legend(ends)}{curves(axis, ends, height=150)}"
                if ends
                else "",
            )
        )

    def _alive(self, node: int) -> list[tuple[Span, str, str]]:
        found = spans(
            self.samples, lambda sample: node in sample.get("alive", ()), self.axis.seconds
        )
        # who comes later is not missed before
        down = "none" if node in self.samples[0].get("alive", ()) else "off"
        return [
            (
                span,
                "up" if span.what else down,
                f"node {node} {'runs' if span.what else 'does not run, or is stopped'}",
            )
            for span in found
        ]

    def _leaders(self, key: str, nodes: list[int]) -> list[tuple[Span, str, str]]:
        full = max((len(each.get("isr", {}).get(key, ())) for each in self.samples), default=0)
        found = []
        for span in spans(
            self.samples,
            lambda sample: (
                sample.get("leaders", {}).get(key),
                tuple(sample.get("isr", {}).get(key, ())),
            ),
            self.axis.seconds,
        ):
            leader, isr = span.what
            if leader is None:
                continue  # nobody was asked, or answered
            thin = " thin" if len(isr) < full else ""
            classes = f"c{self._colour(leader, nodes)}{thin}" if leader >= 0 else "none"
            found.append(
                (
                    span,
                    classes,
                    f"{key}: {f'node {leader} leads' if leader >= 0 else 'nobody leads'}, ISR "
                    f"{', '.join(map(str, isr)) or '-'}",
                )
            )
        return found

    @staticmethod
    def _colour(node: int, nodes: list[int]) -> int:
        return nodes.index(node) % COLOURS if node in nodes else COLOURS - 1

    # anomalies

    def _anomalies(self) -> str:
        anomalies = self.verdict.get("anomalies", ())
        violations = self.verdict.get("violations", ())
        if not anomalies and not violations:
            notes = ", ".join(
                f"{count:,} {kind}" for kind, count in sorted(self.verdict.get("notes", {}).items())
            )
            return (
                "<h2>Anomalies</h2><p>None."
                + (f" Allowed by Kafka, and seen: {escape(notes)}." if notes else "")
                + "</p>"
            )
        counts: Counter[str] = Counter(
            self.verdict.get("counts") or Counter(each["kind"] for each in anomalies)
        )
        said = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        left_out = f"<p>The first {SHOWN} are shown.</p>" if len(anomalies) > SHOWN else ""
        by_place = {each.began: each for each in self.history.operations}
        witnesses = Witnesses(self.history)
        shown = "".join(
            self._anomaly(i, each, by_place, witnesses) for i, each in enumerate(anomalies[:SHOWN])
        )
        plain = "".join(f"<pre>{escape(str(each))}</pre>" for each in violations)
        return f"<h2>Anomalies <small>{escape(said)}</small></h2>{left_out}{plain}{shown}"

    def _anomaly(
        self,
        number: int,
        anomaly: Mapping[str, Json],
        by_place: Mapping[int, Operation],
        witnesses: Witnesses,
    ) -> str:
        operations = [by_place[place] for place in anomaly["operations"] if place in by_place]
        key = anomaly["key"]
        rows = "".join(
            f'<tr><td class="n">{each.began}</td><td '
            f'class="n">{each.process}</td><td>{each.verb}</td><td>{each.outcome}</td>'
            f'<td class="n">{each.began_s:.3f} to {each.ended_s:.3f} '
            f"s</td><td><code>{escape(_body(each))}</code></td></tr>"
            for each in operations
        )
        heads = (
            '<th class="n">line</th><th class="n">process</th><th>what</th><th>end</th><th '
            'class="n">when</th><th></th>'
        )
        table = f"<div><table><tr>{heads}</tr>{rows}</table></div>" if rows else ""
        matrix = ""
        offsets = sorted(
            {offset for each in operations for offset in witnesses.offsets_in(each, key)}
        )
        if number < WITH_WITNESSES and offsets:
            matrix = _matrix(*witnesses.around(key, offsets))
        sentence, _, rest = str(anomaly["sentence"]).partition("\n")
        more = f"<pre>{escape(rest)}</pre>" if rest else ""
        summary = f"<summary><b>{escape(anomaly['kind'])}</b> {escape(sentence)}</summary>"
        return f"<details{' open' if number < 3 else ''}>{summary}{more}{table}{matrix}</details>"

    # the foot

    def _again(self) -> str:
        replay = str(self.plan.get("replay", ""))
        note = (
            "The seed chooses faults and clients; when things happen the machine decides."
            if self.plan.get("kind") == "live"
            else "The same every time."
        )
        parts = (
            [f"<h2>Again <small>{note}</small></h2><pre>{escape(replay)}</pre>"] if replay else []
        )
        kinds = Counter(each.what[0] for each in self.faults)
        bit = self.figures.get("bit")
        rows = "".join(
            f'<tr><td>{escape(kind)}</td><td class="n">{count}</td>'
            + (f'<td class="n">{bit.get(kind, 0)}</td>' if bit is not None else "")
            + "</tr>"
            for kind, count in sorted(kinds.items())
        )
        heads = '<th>fault</th><th class="n">times</th>' + (
            '<th class="n">bit</th>' if bit is not None else ""
        )
        verbs = Counter((each.verb, each.outcome) for each in self.history.operations)
        ended = "".join(
            f'<tr><td>{verb}</td><td>{outcome}</td><td class="n">{count:,}</td></tr>'
            for (verb, outcome), count in sorted(verbs.items())
        )
        parts.append(
            f"<h2>Counts</h2><div class='two'><table><tr>{heads}</tr>{rows}</table>"
            "<table><tr><th>operation</th><th>end</th><th "
            f"class='n'>times</th></tr>{ended}</table></div>"
        )
        lacking = [*self.verdict.get("missing", ()), *self.figures.get("troubles", ())]
        if lacking:
            parts.append(
                "<h2>Missing tools, and errors of clients</h2>"
                + "".join(f"<p>{escape(str(each))}</p>" for each in lacking)
            )
        return "".join(parts)


def _matrix(offsets: Sequence[int], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A cell is hot when somebody else knows something else of that offset."""
    columns = list(zip(*(cells for _, cells in rows), strict=True))
    odd = [len({cell for cell in column if cell}) > 1 for column in columns]
    head = "".join(f'<th class="n">{offset}</th>' for offset in offsets)
    body = "".join(
        f"<tr><td>{escape(who)}</td>"
        + "".join(
            f'<td class="n{" hot" if hot and cell else ""}">{escape(cell) or "·"}</td>'
            for cell, hot in zip(cells, odd, strict=True)
        )
        + "</tr>"
        for who, cells in rows
    )
    return (
        f"<div><table><tr><th>metadata of each node at offset</th>{head}</tr>{body}</table></div>"
    )


def _body(operation: Operation) -> str:
    parts = []
    for name in (
        "error",
        "producer",
        "group",
        "sends",
        "offsets",
        "keys",
        "rebalanced",
        "polled",
        "told",
    ):
        value = getattr(operation, name)
        if value:
            parts.append(f"{name} {json.dumps(value, default=str)}")
    text = "  ".join(parts)
    return text if len(text) <= OPERATION_CHARACTERS else text[:OPERATION_CHARACTERS] + " ..."


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _rows(path: Path) -> list[JsonObject]:
    """A last line that is cut off is left out: whoever wrote it was killed."""
    return [
        json.loads(line) for line in _text(path).splitlines(keepends=True) if line.endswith("\n")
    ]
