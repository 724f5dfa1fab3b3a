"""The part of PromQL that raftka's dashboards and alerts use, over pages of metrics: selectors
with = and !=, rate, increase, histogram_quantile, sum, avg, min and max by labels, abs, time,
timestamp, arithmetic and comparisons. Rates are differences over the window, not extrapolated.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Points = list[tuple[float, float]]  # time in s, and value
Vector = dict[Labels, float]
Value = Vector | float

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<window>\[\d+[smh]\])|(?P<text>\"[^\"]*\")"
    r"|(?P<name>[A-Za-z_:][\w:]*)|(?P<sign>==|!=|>=|<=|[-+*/><(){},=]))"
)
UNITS = {"s": 1, "m": 60, "h": 3600}
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else float("nan"),
}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
}
AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
}


class Series:
    """Samples of all scrapes so far. Labels: those of the page, with instance and job."""

    def __init__(self) -> None:
        self.of: defaultdict[str, defaultdict[Labels, Points]] = defaultdict(
            lambda: defaultdict(list)
        )

    def add(self, name: str, labels: dict[str, str], at: float, value: float) -> None:
        self.of[name][frozenset(labels.items())].append((at, value))

    def scrape(self, instance: str, page: str | None, at: float) -> None:
        """Take a page; None: the instance did not answer."""
        own = {"instance": instance, "job": "raftka"}
        self.add("up", own, at, 0.0 if page is None else 1.0)
        for family in text_string_to_metric_families(page or ""):
            for each in family.samples:
                self.add(each.name, {**each.labels, **own}, at, each.value)


class Token(NamedTuple):
    kind: str
    text: str


def tokens_of(query: str) -> Iterator[Token]:
    position = 0
    while query[position:].strip():
        match = TOKEN.match(query, position)
        if match is None or match.lastgroup is None:
            raise ValueError(f"{query[position:]!r} is not of this part of PromQL")
        yield Token(match.lastgroup, match[match.lastgroup])
        position = match.end()


def evaluate(query: str, series: Series, now: float) -> Vector:
    """Return the values of a query. Raises ValueError for a query of another part of PromQL."""
    value = _Reader(query, series, now).whole()
    return value if isinstance(value, dict) else {frozenset(): value}


class _Reader:
    def __init__(self, query: str, series: Series, now: float) -> None:
        self._tokens = [*tokens_of(query), Token("end", "")]
        self._series, self._now = series, now

    def _next(self) -> Token:
        return self._tokens.pop(0)

    def _take(self, text: str) -> bool:
        if self._tokens[0].text != text:
            return False
        self._next()
        return True

    def _want(self, text: str) -> None:
        if not self._take(text):
            raise ValueError(f"{text!r} was expected, not {self._tokens[0].text!r}")

    def whole(self) -> Value:
        value = self._comparison()
        self._want("")
        return value

    def _comparison(self) -> Value:
        left = self._sum()
        while (sign := self._tokens[0].text) in COMPARISONS:
            self._next()
            left = _compared(COMPARISONS[sign], left, self._sum())
        return left

    def _sum(self) -> Value:
        left = self._product()
        while (sign := self._tokens[0].text) in ("+", "-"):
            self._next()
            left = _combined(ARITHMETIC[sign], left, self._product())
        return left

    def _product(self) -> Value:
        left = self._one()
        while (sign := self._tokens[0].text) in ("*", "/"):
            self._next()
            left = _combined(ARITHMETIC[sign], left, self._one())
        return left

    def _one(self) -> Value:
        token = self._next()
        if token.kind == "number":
            return float(token.text)
        if token.text == "(":
            value = self._comparison()
            self._want(")")
            return value
        if token.kind != "name":
            raise ValueError(f"a value was expected, not {token.text!r}")
        if token.text in AGGREGATES:
            return self._aggregate(AGGREGATES[token.text])
        if self._take("("):
            return self._function(token.text)
        return {labels: points[-1][1] for labels, points in self._selected(token.text)}

    def _aggregate(self, function: Callable[[Sequence[float]], float]) -> Vector:
        by = self._names() if self._take("by") else ()
        self._want("(")
        value = self._comparison()
        self._want(")")
        groups: defaultdict[Labels, list[float]] = defaultdict(list)
        assert isinstance(value, dict)
        for labels, each in value.items():
            groups[frozenset(pair for pair in labels if pair[0] in by)].append(each)
        return {labels: function(values) for labels, values in groups.items()}

    def _names(self) -> list[str]:
        self._want("(")
        names = []
        while not self._take(")"):
            names.append(self._next().text)
            self._take(",")
        return names

    def _function(self, name: str) -> Value:
        if name == "time":
            self._want(")")
            return self._now
        if name in ("rate", "increase"):
            selected = list(self._selected(self._next().text))
            window = self._next()
            assert window.kind == "window", window
            self._want(")")
            seconds = int(window.text[1:-2]) * UNITS[window.text[-2]]
            return dict(_grown(selected, self._now - seconds, name == "rate"))
        if name == "timestamp":
            found = {labels: points[-1][0] for labels, points in self._selected(self._next().text)}
            self._want(")")
            return found
        if name == "abs":
            value = self._comparison()
            self._want(")")
            assert isinstance(value, dict)
            return {labels: abs(each) for labels, each in value.items()}
        if name == "histogram_quantile":
            part = float(self._next().text)
            self._want(",")
            value = self._comparison()
            self._want(")")
            assert isinstance(value, dict)
            return dict(_quantiles(part, value))
        raise ValueError(f"{name} is not of this part of PromQL")

    def _selected(self, name: str) -> Iterator[tuple[Labels, Points]]:
        wanted = []
        if self._take("{"):
            while not self._take("}"):
                label, sign, text = self._next().text, self._next().text, self._next().text[1:-1]
                wanted.append((label, sign, text))
                self._take(",")
        for labels, points in self._series.of.get(name, {}).items():
            own = dict(labels)
            if all((own.get(label, "") == text) is (sign == "=") for label, sign, text in wanted):
                yield labels, points


def _grown(
    selected: Iterable[tuple[Labels, Points]], since: float, is_rate: bool
) -> Iterator[tuple[Labels, float]]:
    """Yield what counters gained since then; one that fell began anew at 0."""
    for labels, points in selected:
        own = [each for each in points if each[0] >= since]
        if len(own) < 2:
            continue
        gained = sum(
            after - before if after >= before else after
            for (_, before), (_, after) in pairwise(own)
        )
        passed = own[-1][0] - own[0][0]
        yield labels, gained / passed if is_rate else gained


def _quantiles(part: float, value: Vector) -> Iterator[tuple[Labels, float]]:
    """Yield the bound of the bucket that has the quantile, of each histogram."""
    histograms: defaultdict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for labels, each in value.items():
        rest = frozenset(pair for pair in labels if pair[0] != "le")
        histograms[rest].append((float(dict(labels)["le"]), each))
    for labels, buckets in histograms.items():
        buckets.sort()
        total = buckets[-1][1]
        finite = [bound for bound, _ in buckets if bound != float("inf")]
        if total > 0:
            bound = next(bound for bound, number in buckets if number >= part * total)
            yield labels, min(bound, finite[-1])


def _combined(function: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, dict) and isinstance(right, dict):
        return {
            labels: function(each, right[labels])
            for labels, each in left.items()
            if labels in right
        }
    if isinstance(left, dict):
        assert not isinstance(right, dict)
        return {labels: function(each, right) for labels, each in left.items()}
    if isinstance(right, dict):
        return {labels: function(left, each) for labels, each in right.items()}
    return function(left, right)


def _compared(function: Callable[[float, float], bool], left: Value, right: Value) -> Vector:
    """Return the values on the left for which it holds."""
    assert isinstance(left, dict)
    assert not isinstance(right, dict)
    return {labels: each for labels, each in left.items() if function(each, right)}
