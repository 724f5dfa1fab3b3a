"""Options of lakes, and their errors as sentences. Knows no lake."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raftka.pipeline.connect.options import KEEP_REMOVED_S, Keyed, keyed, span_s
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.lake.where import Condition, conditions
from raftka.pipeline.topics.options import refuse_unknown, truth

READ = ["path", "versionAsOf", "columns", "where", "takeFilters"]
KEYED = ["mode", "key", "order", "delete"]
WRITTEN = [
    "path",
    "partitionBy",
    "compactEvery",
    "zOrderBy",
    "checkpointLocation",
    "queryName",
    "txnAppId",
    "txnVersion",
    *KEYED,
    "keepRemoved",
]
MODES = ("append", "upsert")
COMPACT_EVERY = 100  # batches


@dataclass(frozen=True, slots=True)
class Lake:
    url: str
    # what deltalake needs to get there, as it names it
    storage: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    version: int | None = None  # to read
    columns: tuple[str, ...] = ()  # to read; empty: all
    where: tuple[Condition, ...] = ()  # of the rows to read: all hold
    compact_every: int = COMPACT_EVERY  # batches of a query; 0: never
    # of a batch query: name and number, as Delta has them
    transaction: tuple[str, int] | None = None
    z_order_by: tuple[str, ...] = ()  # columns by which compaction sorts rows into files
    keyed: Keyed | None = None  # rows change those with their key; None: rows are added
    # so long older changes do not bring back a row that was removed; 0: they do
    keep_removed_s: int = KEEP_REMOVED_S
    takes_filters: bool = False  # Spark's filters leave out files: for a frame that is asked once


def lake_options(
    given: Mapping[str, str], *, known: Sequence[str], streaming: bool = False
) -> Lake:
    """Raises OptionRefused."""
    options = {name.lower(): value for name, value in given.items()}
    storage = {
        name[len("storage.") :]: value
        for name, value in options.items()
        if name.startswith("storage.")
    }
    names = {name.lower() for name in known}
    refuse_unknown(
        [name for name in options if name not in names and not name.startswith("storage.")],
        list(known),
        "storage.*",
    )
    if not options.get("path", "").strip():
        raise OptionRefused(
            'where is the lake? .option("path", "s3://bucket/trucks"), or a folder that all '
            "executors see"
        )
    transaction = _transaction(options)
    if streaming and transaction is not None:
        raise OptionRefused(
            "txnAppId and txnVersion are for batch queries: a stream's batches are numbered by "
            "its checkpoint"
        )
    every = _number(options, "compactEvery")
    return Lake(
        url_of(options["path"].strip()),
        storage,
        _names(options, "partitionBy"),
        _number(options, "versionAsOf"),
        _names(options, "columns"),
        conditions(options["where"]) if "where" in options else (),
        COMPACT_EVERY if every is None else every,
        transaction,
        _names(options, "zOrderBy"),
        keyed_by(options),
        _kept_removed(options),
        truth(options, "takeFilters", False),
    )


def keyed_by(options: Mapping[str, str]) -> Keyed | None:
    """`options`: by names in small letters. A key makes the mode upsert. Raises OptionRefused."""
    found = keyed(options)
    mode = options.get("mode", "append" if found is None else "upsert")
    if mode not in MODES:
        raise OptionRefused(f"mode is {mode!r}: it is to be {' or '.join(MODES)}")
    if mode == "upsert" and found is None:
        raise OptionRefused(
            "mode upsert needs a key: the columns that name a row, such as key: [id]"
        )
    if mode == "append" and found is not None:
        raise OptionRefused(
            "mode append adds rows, whatever their key is: leave key, order and delete out, or "
            "take mode upsert"
        )
    return found


def _kept_removed(options: Mapping[str, str]) -> int:
    text = options.get("keepremoved", "").strip()
    if not text:
        return KEEP_REMOVED_S
    if options.get("delete", "").strip() == "":
        raise OptionRefused(
            "keepRemoved says how long removed rows are remembered: it needs a delete"
        )
    return span_s(text, "keepRemoved")


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in options.get(name.lower(), "").split(",") if each.strip())


def _transaction(options: Mapping[str, str]) -> tuple[str, int] | None:
    name, number = options.get("txnappid"), _number(options, "txnVersion")
    if (name is None) != (number is None):
        raise OptionRefused(
            "txnAppId and txnVersion go together: they name the application and the batch"
        )
    return (name, number) if name is not None and number is not None else None


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is not None and not text.strip().isdecimal():
        raise OptionRefused(f"{name} is {text!r}: it is to be a whole number")
    return None if text is None else int(text)


def is_folder(lake: Lake) -> bool:
    """Return whether the lake is on a file system of this machine."""
    return "://" not in lake.url


def url_of(path: str) -> str:
    """As deltalake takes it. A folder's name counts from where the driver runs: executors may run
    elsewhere.
    """
    if match := re.fullmatch(r"file:/+(.*)", path):
        return f"/{match[1]}"
    return path if "://" in path else os.path.abspath(path)
