"""`streams.yml`: topics as views, and views into topics and lakes. Its declarations and their
errors; knows YAML, and no Spark.

bootstrap: localhost:9092
security: client.properties                # Kafka's client properties, in a file beside this one
streams:
  trucks:                                  # the views trucks, trucks_raw and trucks_bad
    topic: trucks_gps
    format: [json, avro]
    registry: http://localhost:8081        # or schemas: schemas, with Avro's schema 7 in 7.avsc
    fields: {truck: int, latitude: double, speed: "double?"}
    watermark: 10 seconds                  # behind the record's timestamp
outputs:
  lake: {from: trucks, delta: lake/trucks}
  fast: {from: fast_trucks, topic: fast_trucks, key: truck}
page: {positions: truck_positions, alerts: truck_alerts, fences: fences.geojson}
"""

import difflib
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.json_values import Json, JsonObject
from raftka.pipeline.connect import specs
from raftka.pipeline.connect.specs import Sink, Source
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.records.fields import ADDED, Envelope, Field, envelope, fields
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.topics.security import FILE_OPTION
from raftka.pipeline.yaml_text import read_yaml

if TYPE_CHECKING:
    from raftka.pipeline.records.decoding import Decoder

BOOTSTRAP, SECURITY = "RAFTKA_BOOTSTRAP_SERVER", "RAFTKA_COMMAND_CONFIG"
REGISTRY_URL, REGISTRY_USER = "RAFTKA_REGISTRY_URL", "RAFTKA_REGISTRY_USER"
REGISTRY_PASSWORD = "RAFTKA_REGISTRY_PASSWORD"
FORMATS = ("json", "avro", "protobuf", "string")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DOCUMENT = ["bootstrap", "security", "registry", "streams", "outputs", "page"]
PAGE = ["title", "noun", "positions", "alerts", "fences", "history"]
TITLE, NOUN = "Trucks", "truck"  # of a page that does not say
HISTORY = ["from", "at", "key"]
REGISTRY = ["url", "user", "password_from", "ca", "certificate", "key"]
STREAM = [
    "topic",
    "format",
    "envelope",
    "key",
    "registry",
    "schemas",
    "fields",
    "watermark",
    "options",
    "shared",
]
OUTPUT = [
    "from",
    "topic",
    "delta",
    "mode",
    "key",
    "order",
    "delete",
    "columns",
    "options",
    "partitions",
    "config",
]


@dataclass(frozen=True, slots=True)
class StreamSpec:
    name: str
    topic: str
    formats: tuple[str, ...]
    fields: tuple[Field, ...]
    schemas: Mapping[int, Json]
    watermark: tuple[str, str] | None  # column, delay
    options: Mapping[str, str]
    registry: RegistryAccess | None = None
    # its records change rows: `fields` has what it adds to the declared ones
    envelope: Envelope | None = None
    shared: bool = True  # records are fetched and decoded once for all flows of the stream


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    source: str | None  # a view; None: flows are defined elsewhere
    topic: str | None
    path: str | None
    # rows become JSON with this column as the key; None: they have the columns of the sink
    key: str | None
    options: Mapping[str, str]
    partitions: int = 0  # of a topic that has to be made; 0: as many as brokers give
    config: Mapping[str, str] = field(default_factory=dict)
    sink: Sink | None = None  # neither a topic nor a lake
    # SQL expressions of what goes there; empty: all columns of the view
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """A lake with `latitude` and `longitude` of each key over time."""

    path: str
    at: str
    key: str
    storage: Mapping[str, str] = field(default_factory=dict)  # options of the lake, to get there


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of the page: records by key of a compacted topic, the last ones of another,
    areas, and where things were before.
    """

    positions: str
    alerts: str | None = None
    fences: Path | None = None
    history: History | None = None
    title: str = TITLE
    noun: str = NOUN  # what a key is; records of alerts have it as a field


@dataclass(frozen=True, slots=True)
class Declared:
    bootstrap: str
    streams: tuple[StreamSpec, ...]
    outputs: tuple[Output, ...]
    page: Shown | None = None
    security: Path | None = None  # the file with the client properties of the cluster
    sources: tuple[Source, ...] = ()  # streams that are read from elsewhere than topics
    file: Path | None = None  # that declares all this

    @property
    def connection(self) -> dict[str, str]:
        """Spark's options that say where the cluster is and how to get in. No secret is among
        them.
        """
        return connection(self.bootstrap, self.security)

    def at(self, bootstrap: str | None, security: Path | None) -> "Declared":
        """The same on another cluster, or with other client properties; None: as it is."""
        return replace(
            self, bootstrap=bootstrap or self.bootstrap, security=security or self.security
        )

    def stream(self, name: str) -> StreamSpec:
        for each in self.streams:
            if each.name == name:
                return each
        raise OptionRefused(
            f"there is no stream {name} among {', '.join(each.name for each in self.streams)}"
        )


def decoder_of(stream: StreamSpec) -> "Decoder":
    from raftka.pipeline.records.decoding import Decoder
    from raftka.pipeline.records.envelopes import EnvelopeDecoder

    if stream.envelope is not None:
        return EnvelopeDecoder(
            stream.formats, stream.fields, stream.envelope, stream.schemas, stream.registry
        )
    return Decoder(stream.formats, stream.fields, stream.schemas, stream.registry)


def digest_of(stream: StreamSpec) -> str:
    """The same for the same declaration. Knows no secret: a registry's password does not count."""
    return hashlib.sha256(repr(stream).encode()).hexdigest()[:32]


def connection(bootstrap: str, config: Path | None) -> dict[str, str]:
    """`config`: a file with client properties."""
    return {"kafka.bootstrap.servers": bootstrap} | (
        {} if config is None else {FILE_OPTION: str(config)}
    )


def set_cluster(bootstrap: str | None, config: Path | None) -> None:
    """For all that this process loads, and its children; None: leave it as it is. Definitions load
    streams.yml by themselves.
    """
    for name, value in ((BOOTSTRAP, bootstrap), (SECURITY, config)):
        if value is not None:
            os.environ[name] = str(value)


def load(path: Path) -> Declared:
    """Raises PipelineError."""
    try:
        told = read_yaml(path)
    except FileNotFoundError:
        raise PipelineError(
            f"{path} is not there. `raftka pipeline init trucks DIR` writes a project to begin with"
        ) from None
    try:
        return replace(declared(told, path.parent), file=path.absolute())
    except OptionRefused as error:
        raise OptionRefused(f"{path}: {error}") from None


def declared(told: object, folder: Path, environment: Mapping[str, str] = os.environ) -> Declared:
    """Read declarations. `folder`: relative paths begin there. Raise OptionRefused."""
    document = _mapping(told, "it")
    _refuse_unknown(document, DOCUMENT, "it")
    bootstrap = environment.get(BOOTSTRAP) or str(document.get("bootstrap", "localhost:9092"))
    security = (
        Path(named).absolute()
        if (named := environment.get(SECURITY))
        else _security(document.get("security"), folder)
    )
    registry = (
        registry_access(
            document["registry"], "registry", folder, environment, environment.get(REGISTRY_URL)
        )
        if "registry" in document
        else None
    )
    given = {
        _name(name): _mapping(each, name)
        for name, each in _mapping(document.get("streams") or {}, "streams").items()
    }
    elsewhere = {
        name: each for name, each in given.items() if specs.kind_of(each, specs.SOURCES) is not None
    }
    streams = tuple(
        _stream(name, each, folder, registry, environment)
        for name, each in given.items()
        if name not in elsewhere
    )
    sources = tuple(specs.source(name, each, folder) for name, each in elsewhere.items())
    there = connection(bootstrap, security)
    outputs = tuple(
        _output(name, _mapping(each, name), folder, there)
        for name, each in _mapping(document.get("outputs") or {}, "outputs").items()
    )
    return Declared(
        bootstrap, streams, outputs, _page(document.get("page"), folder, outputs), security, sources
    )


def _refuse_unknown(told: Mapping[str, object], known: list[str], where: str) -> None:
    for name in told.keys() - set(known):
        near = difflib.get_close_matches(name, known, 1)
        raise OptionRefused(
            f"{where} has {name}, which means nothing"
            + (f": is it {near[0]}?" if near else f"; there are {', '.join(known)}")
        )


def _mapping(told: object, where: str) -> JsonObject:
    if not isinstance(told, Mapping):
        raise OptionRefused(f"{where} is to be a mapping")
    return {str(name): each for name, each in told.items()}


def _name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise OptionRefused(
            f"{name!r} is no name for a view: letters, digits and _, a letter first"
        )
    return name


def _stream(
    name: str,
    told: Mapping[str, object],
    folder: Path,
    registry: RegistryAccess | None,
    environment: Mapping[str, str],
) -> StreamSpec:
    _refuse_unknown(told, STREAM, name)
    if "topic" not in told:
        raise OptionRefused(f"{name} has no topic, and none of {', '.join(specs.SOURCES)}")
    given = told.get("format", "json")
    formats = tuple(given) if isinstance(given, list) else (given,)
    if (
        not formats
        or not all(isinstance(each, str) and each in FORMATS for each in formats)
        or ("string" in formats and len(formats) > 1)
    ):
        raise OptionRefused(
            f"{name}.format is {given!r}: one of {', '.join(FORMATS)}, or several such as [json, "
            "avro]"
        )
    if ("fields" in told) == ("string" in formats):
        wrong = (
            "a string has one column, value"
            if "fields" in told
            else "which fields do its records have?"
        )
        raise OptionRefused(f"{name}: {wrong}")
    wanted = fields(told["fields"], f"{name}.fields") if "fields" in told else ()
    found = envelope(told.get("envelope"), told.get("key"), wanted, name)
    wanted = wanted if found is None else (*wanted, *ADDED[found.kind])
    if "registry" in told and "schemas" in told:
        raise OptionRefused(f"{name}: its schemas are in a registry or in a folder, not in both")
    if "registry" in told:
        registry = registry_access(told["registry"], f"{name}.registry", folder, environment)
    elif "schemas" in told:
        registry = None
    if "protobuf" in formats and registry is None:
        raise OptionRefused(
            f"{name}: Protobuf needs a registry, such as `registry: http://localhost:8081`"
        )
    schemas = (
        schemas_in(folder / str(told.get("schemas", "schemas")))
        if "avro" in formats and registry is None
        else {}
    )
    options = {"startingOffsets": "earliest"} | specs.plain_options(
        told.get("options") or {}, f"{name}.options"
    )
    watermark = _watermark(told.get("watermark"), name)
    shared = told.get("shared", True)
    if not isinstance(shared, bool):
        raise OptionRefused(f"{name}.shared is {shared!r}: true or false")
    registry = None if formats == ("string",) else registry
    return StreamSpec(
        _name(name),
        _text(told, "topic", name),
        formats,
        wanted,
        schemas,
        watermark,
        options,
        registry,
        found,
        shared,
    )


def registry_access(
    told: object, where: str, folder: Path, environment: Mapping[str, str], url: str | None = None
) -> RegistryAccess:
    """Read the access to a registry: a URL, several with commas between them, or a mapping. The
    password is in the environment. `url` goes before the declared one.
    """
    given = {"url": told} if isinstance(told, str) else _mapping(told, where)
    _refuse_unknown(given, REGISTRY, where)
    urls = tuple(
        each.strip().rstrip("/")
        for each in (url or str(given.get("url") or "")).split(",")
        if each.strip()
    )
    if not urls:
        raise OptionRefused(f"{where} has no url")
    user = given.get("user") or environment.get(REGISTRY_USER) or None
    secret = str(given.get("password_from") or REGISTRY_PASSWORD)
    if user is not None and secret not in environment:
        raise OptionRefused(
            f"{where} has the user {user}, whose password is to be in the environment, in {secret}"
        )
    files = {
        name: str(folder / str(given[name]))
        for name in ("ca", "certificate", "key")
        if name in given
    }
    if "key" in files and "certificate" not in files:
        raise OptionRefused(f"{where} has a key, and no certificate")
    return RegistryAccess(
        urls,
        None if user is None else str(user),
        environment.get(secret, "") if user is not None else "",
        **files,
    )


def _watermark(told: object, name: str) -> tuple[str, str] | None:
    if told is None:
        return None
    if isinstance(told, Mapping) and told.keys() == {"column", "delay"}:
        return str(told["column"]), str(told["delay"])
    if isinstance(told, str):
        return "_timestamp", told
    raise OptionRefused(
        f"{name}.watermark is {told!r}: `10 seconds`, or {{column: sent, delay: 10 seconds}}"
    )


def schemas_in(folder: Path) -> dict[int, Json]:
    found = {}
    for path in sorted(folder.glob("*.avsc")):
        if not path.stem.isdecimal():
            raise OptionRefused(f"{path}: a schema's file has its id as name, such as 7.avsc")
        try:
            found[int(path.stem)] = json.loads(path.read_text())
        except ValueError as error:
            raise OptionRefused(f"{path} is no JSON: {error}") from None
    if not found:
        raise OptionRefused(
            f"there is no schema in {folder}: Avro's schema with the id 7 is to be there as 7.avsc"
        )
    return found


def _output(name: str, told: Mapping[str, Json], folder: Path, kafka: Mapping[str, str]) -> Output:
    wanted = specs.columns(told.get("columns"), name)
    if specs.kind_of(told, specs.SINKS) is not None:
        return Output(
            _name(name),
            _from(told, name),
            None,
            None,
            None,
            {},
            sink=specs.sink(name, told, folder, kafka),
            columns=wanted,
        )
    _refuse_unknown(told, OUTPUT, name)
    if ("topic" in told) == ("delta" in told):
        raise OptionRefused(
            f"{name}: where to? `topic: NAME` or `delta: PATH`, or one of {', '.join(specs.SINKS)}"
        )
    options = specs.plain_options(told.get("options") or {}, f"{name}.options")
    config = specs.plain_options(told.get("config") or {}, f"{name}.config")
    key = _text(told, "key", name) if "topic" in told and "key" in told else None
    if unused := [
        each for each in ("partitions", "config") if each in told and "topic" not in told
    ]:
        raise OptionRefused(f"{name} has {unused[0]}, which is of topics")
    if "delta" in told:
        options |= specs.keyed_options(name, told, options)
    elif wrong := [each for each in ("mode", "order", "delete") if each in told]:
        raise OptionRefused(
            f"{name} has {wrong[0]}, which is of lakes: records of a topic are added, and the "
            "newest one of a key counts"
        )
    return Output(
        _name(name),
        _from(told, name),
        _text(told, "topic", name) if "topic" in told else None,
        _path(_text(told, "delta", name), folder) if "delta" in told else None,
        key,
        options,
        _count(told.get("partitions", 0), f"{name}.partitions"),
        config,
        columns=wanted,
    )


def _text(told: Mapping[str, Json], key: str, name: str) -> str:
    if (
        isinstance(told[key], bool)
        or not isinstance(told[key], str | int)
        or not str(told[key]).strip()
    ):
        raise OptionRefused(f"{name}.{key} is {told[key]!r}: it is to be a text")
    return str(told[key])


def _from(told: Mapping[str, Json], name: str) -> str | None:
    return None if told.get("from") is None else _text(told, "from", name)


def _count(told: object, where: str) -> int:
    if isinstance(told, bool) or not isinstance(told, int) or told < 0:
        raise OptionRefused(f"{where} is {told!r}: it is to be a whole number")
    return told


def _security(told: object, folder: Path) -> Path | None:
    if told is None:
        return None
    if not isinstance(told, str) or not told.strip():
        raise OptionRefused(
            "security is to be the path of a file with client properties, such as "
            "client.properties: secrets do not stand in here"
        )
    return (folder / told).resolve()


def _page(told: object, folder: Path, outputs: Sequence[Output]) -> Shown | None:
    if told is None:
        return None
    page = _mapping(told, "page")
    _refuse_unknown(page, PAGE, "page")
    if "positions" not in page:
        raise OptionRefused("page has no positions: which compacted topic is it to show?")
    fences = folder / str(page["fences"]) if "fences" in page else None
    title, noun = (
        str(page.get(name, default)) for name, default in (("title", TITLE), ("noun", NOUN))
    )
    alerts = _text(page, "alerts", "page") if page.get("alerts") is not None else None
    return Shown(
        _text(page, "positions", "page"),
        alerts,
        fences,
        _history(page.get("history"), outputs),
        title,
        noun,
    )


def _history(told: object, outputs: Sequence[Output]) -> History | None:
    if told is None:
        return None
    history = _mapping(told, "page.history")
    _refuse_unknown(history, HISTORY, "page.history")
    lakes = {each.name: each for each in outputs if each.path is not None}
    named = history.get("from")
    if not isinstance(named, str) or named not in lakes:
        raise OptionRefused(
            f"page.history.from is {named!r}: one of the outputs with delta, "
            f"{', '.join(lakes) or 'of which there is none'}"
        )
    lake = lakes[named]
    storage = {
        name: value for name, value in lake.options.items() if name.lower().startswith("storage.")
    }
    return History(
        str(lake.path),
        _column(history.get("at", "_timestamp")),
        _column(history.get("key", "truck")),
        storage,
    )


def _column(told: object) -> str:
    if not isinstance(told, str) or COLUMN.fullmatch(told) is None:
        raise OptionRefused(f"page.history: {told!r} is no name of a column")
    return told


def _path(told: str, folder: Path) -> str:
    return told if "://" in told else str((folder / told).resolve())
