"""One page of metrics from those of several brokers: each sample gets the label `broker`. Knows no
HTTP.

The text format of Prometheus, version 0.0.4, as raftka's own exporter writes it: a family's samples
follow its HELP and TYPE. Linear in the bytes.
"""

from collections.abc import Mapping

LABEL = "broker"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def merged(pages: Mapping[str, bytes]) -> bytes:
    """Return one page. `pages`: by the label's value. Each family comes once, in the order of its
    first page.
    """
    heads: dict[bytes, dict[bytes, bytes]] = {}  # by family and keyword
    samples: dict[bytes, list[bytes]] = {}
    for value, page in pages.items():
        label = f'{LABEL}="{value}"'.encode()
        family = b""
        for line in page.split(b"\n"):
            if line.startswith((b"# HELP ", b"# TYPE ")):
                _, keyword, family, *_ = line.split(b" ", 3)
                heads.setdefault(family, {}).setdefault(keyword, line)
            elif line and not line.startswith(b"#"):
                samples.setdefault(family, []).append(_labelled(line, label))
    lines = [
        line
        for family, found in samples.items()
        for line in (*heads.get(family, {}).values(), *found)
    ]
    return b"".join([line + b"\n" for line in lines])


def _labelled(sample: bytes, label: bytes) -> bytes:
    """Return a sample with the label. The exporter itself has no label of that name."""
    name, brace, rest = sample.partition(b"{")
    if brace and b" " not in name:
        return name + b"{" + label + (b"" if rest.startswith(b"}") else b",") + rest
    name, _, value = sample.partition(b" ")
    return name + b"{" + label + b"} " + value
