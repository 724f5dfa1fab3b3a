"""Records that change rows by key: they become rows with a flag `_deleted`, from Debezium's events,
or from a topic where the newest record of a key counts.

A stream with `envelope: debezium` has change events; with `envelope: upsert` the value is the row,
and a tombstone removes it. `key` names the fields that name a row: of a tombstone they are in the
record's key, all other fields are null then.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from raftka.json_values import Json, JsonObject
from raftka.pipeline.records import debezium
from raftka.pipeline.records.arrow_types import ERROR, arrow_type, struct_array
from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fast_json import FastJson
from raftka.pipeline.records.fields import (
    ADDED,
    UPSERT,
    Envelope,
    Field,
    Group,
    fitting,
    member,
)
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.schemas.values import Misfit

SCALARS = (str, int, float, bool)


class EnvelopeDecoder(Decoder):
    """Decodes structs of `key` and `value`."""

    def __init__(
        self,
        formats: Sequence[str],
        wanted: tuple[Field, ...],
        found: Envelope,
        schemas: Mapping[int, object] | None = None,
        registry: RegistryAccess | None = None,
    ) -> None:
        """`wanted`: the declared fields, and behind them those that the envelope adds."""
        super().__init__(formats, wanted, schemas, registry)
        self._envelope = found
        added = {each.name for each in ADDED[found.kind]}
        self._declared = Group(tuple(each for each in wanted if each.name not in added))

    @staticmethod
    def input_of(batch: pa.RecordBatch) -> pa.Array:
        return pa.StructArray.from_arrays(
            [batch.column("key"), batch.column("value")], names=["key", "value"]
        )

    def columns(self, values: pa.Array) -> pa.StructArray:
        """As of any decoder; each value is a struct of `key` and `value`."""
        fast = self._fast_rows()
        if fast is None:
            return self.one_by_one(values)
        found, places = self._changed(fast, values)
        if len(places) == len(values):
            return found
        others = sorted(set(range(len(values))) - set(places))
        rest = self.one_by_one(values.take(pa.array(others, pa.int64())))
        order = [*places, *others]
        back = sorted(range(len(order)), key=order.__getitem__)
        return pa.concat_arrays([found, rest]).take(pa.array(back, pa.int64()))

    def _fast_rows(self) -> FastJson | None:
        """Return the fast reader for events in plain JSON whose fields need no conversion of Kafka
        Connect's.
        """
        if (
            self._envelope.kind == UPSERT
            or self._formats != ("json",)
            or any(each.kind in ("date", "binary") for each in self._declared.fields)
        ):
            return None
        return FastJson.for_fields(self._declared.fields)

    def _changed(self, fast: FastJson, values: pa.Array) -> tuple[pa.StructArray, list[int]]:
        """Return the rows that `fast` makes of `after` in the events, and the places of these
        events.
        """
        places, rows, told = [], [], []
        for at, text in enumerate(values.field("value").to_pylist()):
            event = debezium.quick(text)
            if event is not None:
                places.append(at)
                rows.append(bytes(event.after))
                told.append(
                    (event.op, debezium.moment({"source": event.source, "ts_ms": event.ts_ms}))
                )
        refused = pa.array(["refused"], pa.string())
        none = [pa.nulls(1, arrow_type(each.kind)) for each in self._declared.fields]
        aside = struct_array(self._declared.fields, none, refused)
        found = fast.columns(
            pa.array(rows, pa.binary()),
            lambda others: aside.take(pa.array([0] * len(others), pa.int64())),
        )
        fits = found.field(ERROR).is_null()
        kept = [
            (at, each) for at, each, fit in zip(places, told, fits.to_pylist(), strict=True) if fit
        ]
        found = found.filter(fits)
        columns = [found.field(each.name) for each in self._declared.fields]
        columns += [
            pa.array([False] * len(kept), pa.bool_()),
            pa.array([op for _, (op, _) in kept], pa.string()),
            pa.array([moment for _, (_, moment) in kept], arrow_type("timestamp")),
        ]
        return struct_array(self._wanted, columns, pa.nulls(len(kept), pa.string())), [
            at for at, _ in kept
        ]

    def _row(self, value: Json) -> JsonObject:
        key, text = value["key"], value["value"]
        document = None if text is None else self.parsed(text)
        if self._envelope.kind == UPSERT:
            document = debezium.unwrapped(document)
            if document is None:
                return {**self._removed({}, key), "_deleted": True}
            if not isinstance(document, Mapping):
                raise Misfit(
                    f"the record is {str(document)[:60]!r} where a group of fields is to be"
                )
            return {**self._kept(dict(document), key), "_deleted": False}
        change = debezium.change_of(document)
        told = {"_deleted": change.deleted, "_op": change.op, "_changed": change.at}
        if change.deleted:
            return {**self._removed(change.before, key), **told}
        return {
            **self._kept(
                debezium.complete(change, [each.name for each in self._declared.fields]), key
            ),
            **told,
        }

    def _kept(self, row: JsonObject, key: bytes | None) -> JsonObject:
        """Return the row, whose key may be only in the record's key. Raise Misfit."""
        missing = [name for name in self._envelope.key if row.get(name) is None]
        if missing:
            row |= self._key(key, missing)
        fitted: JsonObject = fitting(self._plain(row), self._declared, "")
        return fitted

    def _removed(self, before: Mapping[str, Json], key: bytes | None) -> JsonObject:
        """Return the key of a removed row, with all other known values. Raise Misfit when its key
        is not known.
        """
        missing = [name for name in self._envelope.key if before.get(name) is None]
        row = self._plain({**before, **(self._key(key, missing) if missing else {})})
        return {each.name: self._known(row, each) for each in self._declared.fields}

    def _known(self, row: JsonObject, field: Field) -> Json:
        if field.name in self._envelope.key:
            return member(row, field)
        try:
            return member(row, field)
        except Misfit:
            return None

    def _plain(self, row: JsonObject) -> JsonObject:
        return {
            **row,
            **{
                each.name: debezium.plain(row[each.name], each.kind)
                for each in self._declared.fields
                if each.name in row
            },
        }

    def _key(self, key: bytes | None, names: Sequence[str]) -> JsonObject:
        """Return the fields of the record's key: a group of them, or the one value. Raise
        Misfit.
        """
        if key is None:
            return {}
        only = self._envelope.key[0] if len(self._envelope.key) == 1 else None
        is_text = only is not None and any(
            each.name == only and each.kind == "string" for each in self._declared.fields
        )
        try:
            document = debezium.unwrapped(self.parsed(key))
        except Misfit:
            if not is_text:
                raise
            document = None
        if isinstance(document, Mapping):
            return {name: document[name] for name in names if name in document}
        if is_text:
            return {
                str(only): key.decode(errors="strict")
                if not isinstance(document, str)
                else document
            }
        return {} if only is None or not isinstance(document, SCALARS) else {only: document}
