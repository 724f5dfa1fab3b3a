"""One page of several: as Prometheus' own parser reads it, with a label more and nothing less."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from raftka.cluster.host.pages import merged

# of groups and topics: anything
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def page(groups: dict[str, float]) -> bytes:
    registry = CollectorRegistry()
    lag = Gauge("lag", "Of groups.", ["consumergroup", "topic"], registry=registry)
    for group, value in groups.items():
        lag.labels(consumergroup=group, topic=group).set(value)
    Counter("turns", "A number.", registry=registry).inc(3)
    Histogram("took", "Seconds.", registry=registry).observe(0.2)
    return generate_latest(registry)


def samples(text: bytes) -> list[tuple[str, str, str, dict[str, str], float]]:
    return [
        (m.name, m.type, s.name, dict(s.labels), s.value)
        for m in text_string_to_metric_families(text.decode())
        for s in m.samples
    ]


@given(
    st.dictionaries(NAMES, st.floats(0, 1e9), max_size=4),
    st.dictionaries(NAMES, st.floats(0, 1e9), max_size=4),
)
def test_every_sample_is_there_with_its_broker(
    first: dict[str, float], second: dict[str, float]
) -> None:
    pages = {"10": page(first), "11": page(second)}

    expected = [
        (n, t, s, {"broker": broker, **labels}, v)
        for broker, text in pages.items()
        for n, t, s, labels, v in samples(text)
    ]

    def in_order(found: list[tuple[str, str, str, dict[str, str], float]]) -> list[str]:
        return sorted(
            map(repr, [(n, t, s, sorted(labels.items()), v) for n, t, s, labels, v in found])
        )

    assert in_order(samples(merged(pages))) == in_order(expected)


def test_a_family_comes_once_with_all_its_brokers() -> None:
    text = merged(
        {
            "1": b"# HELP a A.\n# TYPE a gauge\na 1\n",
            "2": b"# HELP b B.\n# TYPE b gauge\nb{} 3\n# HELP a A.\n# TYPE a gauge\na 2\n",
        }
    )

    assert text.decode() == (
        '# HELP a A.\n# TYPE a gauge\na{broker="1"} 1\na{broker="2"} 2\n# HELP b B.\n# TYPE '
        'b gauge\nb{broker="2"} 3\n'
    )


def test_nothing_makes_an_empty_page() -> None:
    assert merged({}) == merged({"1": b""}) == b""
