"""Writes the decoder of one struct in one version as Python. Hostile bytes end in ProtocolError;
time and memory stay linear in them.

What Kafka lets pass, passes: bytes behind the message, negative lengths as null, any boolean but 0
as true, broken UTF-8 as U+FFFD, unknown and repeated tags in any order.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from struct import calcsize
from typing import Any

from raftka.limits import DECODED_OBJECTS
from raftka.wire.codec import (
    MAX_STRING,
    NUMBERS_OF_STEP,
    READING,
    REPLACEMENT_BYTES,
    Source,
    layout,
    repeated,
)
from raftka.wire.rows import FIXED, NO_VERSION, Field, Struct

# a row of the struct that it was compiled for, and the position behind it
Decoder = Callable[[memoryview, int], tuple[Any, int]]
SteppedDecoder = Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]]
ELEMENTS_OF_STEP = 64  # of an array of structs or strings, between two yields: some 0.1 ms
Locator = Callable[[memoryview, int], tuple[list[int], ...]]


def compile_decoder(struct: Struct, version: int, *, flexible: bool, bounded: bool) -> Decoder:
    """`bounded`: not more objects than DECODED_OBJECTS, for messages of strangers."""
    decoder: Decoder = _compile(struct, version, flexible, bounded, stepped=False)
    return decoder


def compile_stepped_decoder(struct: Struct, version: int, *, flexible: bool) -> SteppedDecoder:
    """The same as a generator, which yields now and then, for long messages of strangers."""
    decoder: SteppedDecoder = _compile(struct, version, flexible, bounded=True, stepped=True)
    return decoder


def _compile(struct: Struct, version: int, flexible: bool, bounded: bool, *, stepped: bool) -> Any:
    source = Source("def decode(view, p):", READING)
    source.put("end = len(view)")
    if bounded:
        source.put(f"left = {DECODED_OBJECTS.value}")
    if stepped:
        source.put("elements = 0", "if not end: yield")
    with source.block("try:"):
        writer = _Writer(source, version, flexible, bounded, stepped)
        row = writer.row(struct)
        source.put("if p > end: refuse_end(p, end)", f"return {row}, p")
    source.put("except (struct_error, IndexError) as error: refuse_cut(error)")
    return source.compile("decode", f"decoder of {struct.name} v{version}")


def compile_locator(
    struct: Struct, version: int, paths: Sequence[str], *, flexible: bool
) -> Locator:
    """Code that reads a message for the positions of some fields alone: for each path
    (`topics.partitions.offset`), where its values begin.

    A value of variable size begins with its length. A field that the version lacks is found
    nowhere.
    """
    source = Source("def locate(view, p):", READING)
    found = {path: source.name("found") for path in paths}
    source.put("end = len(view)", *[f"{name} = []" for name in found.values()])
    with source.block("try:"):
        writer = _Writer(source, version, flexible, bounded=False, stepped=False)
        writer.located = {id(struct.field(path)): name for path, name in found.items()}
        writer.row(struct)
        source.put("if p > end: refuse_end(p, end)", f"return ({', '.join(found.values())},)")
    source.put("except (struct_error, IndexError) as error: refuse_cut(error)")
    locator: Locator = source.compile("locate", f"locator in {struct.name} v{version}")
    return locator


def smallest(struct: Struct, version: int, flexible: bool) -> int:
    """Bytes of the shortest possible value."""
    plain, _ = struct.of_version(version)
    return sum(_smallest_field(f, version, flexible) for f in plain) + flexible


def _smallest_field(field: Field, version: int, flexible: bool) -> int:
    if field.array:
        return 1 if flexible else 4
    if field.struct is not None:
        return 1 if version in field.nullable else smallest(field.struct, version, flexible)
    if field.kind in FIXED:
        return calcsize(">" + FIXED[field.kind][0])
    return 1 if flexible else (2 if field.kind == "string" else 4)


class _Writer:
    """In the written code `p` is the position, `end` the frame's end, `left` how many objects may
    still be made.

    `stepped`: the code is a generator, and `elements` counts what it has decoded of arrays.
    """

    def __init__(
        self, source: Source, version: int, flexible: bool, bounded: bool, stepped: bool
    ) -> None:
        self.source = source
        self.put = source.put
        self.version = version
        self.flexible = flexible
        self.bounded = bounded
        self.stepped = stepped
        self.run: list[tuple[str, str]] = []  # letters and targets that one Struct will read
        # fields, by identity, whose positions are appended to the list of that name
        self.located: dict[int, str] = {}

    def row(self, struct: Struct) -> str:
        """Code that reads one row; returns the name it will have."""
        row = self.source.name("row")
        self.flush()
        cls = self.source.constant(struct.row, "Row")
        self.put(f"{row} = new({cls})")
        plain, tagged = struct.of_version(self.version)
        for field in struct.fields:
            if field not in plain:
                self.put(f"{row}.{field.name} = {self.source.constant(field.default, 'default')}")
        for field in plain:
            self.field(field, f"{row}.{field.name}")
        if self.flexible:
            self.tags(tagged, row)
        self.flush()
        return row

    def read(self, letters: str, target: str) -> None:
        self.run.append((letters, target))

    def flush(self) -> None:
        """Read the run that has gathered."""
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        targets = [target for _, target in self.run]
        if letters == "B":
            self.put(f"{targets[0]} = view[p]", "p += 1")
        else:
            run = layout(letters)
            comma = "," if len(targets) == 1 else ""
            self.put(
                f"{', '.join(targets)}{comma} = "
                f"{self.source.constant(run.unpack_from, 'unpack')}(view, p)",
                f"p += {run.size}",
            )
        self.run = []

    def field(self, field: Field, target: str) -> None:
        if (found := self.located.get(id(field))) is not None:
            self.flush()
            self.put(f"{found}.append(p)")
        if field.array:
            self.array(field, target)
        elif field.struct is not None:
            self.struct(field, field.struct, target)
        elif field.kind in FIXED:
            self.read(FIXED[field.kind][0], target)
        else:
            with self.sized(field, target, "string" if field.kind == "string" else "bytes") as size:
                self.content(field.kind, size, target)

    def content(self, kind: str, size: str, target: str) -> None:
        taken = f"view[p : p + {size}]"
        self.put(
            f"{target} = "
            + {
                "string": f'str({taken}, "utf-8", "replace")',
                "bytes": f"bytes({taken})",
                "records": taken,
            }[kind],
            f"p += {size}",
        )
        if kind == "string":
            self.put(f"if {size} > {MAX_STRING // REPLACEMENT_BYTES}: refuse_replaced({target})")

    def struct(self, field: Field, struct: Struct, target: str) -> None:
        if self.version not in field.nullable:
            self.put(f"{target} = {self.row(struct)}")
            return
        mark = self.source.name("mark")
        self.read("b", mark)
        self.flush()
        with self.source.block(f"if {mark} < 0:"):
            self.put(f"{target} = None")
        with self.source.block("else:"):
            self.put(f"{target} = {self.row(struct)}")

    @contextmanager
    def sized(self, field: Field, target: str, of: str) -> Iterator[str]:
        """Code that reads a length or count, and around the block the answer to null; yields the
        count's name.
        """
        count = self.source.name("n")
        self.read("B" if self.flexible else "h" if of == "string" else "i", count)
        self.flush()
        if self.flexible:
            self.put(
                f"if {count} > 127: {count}, p = long_count(view, p, {count})", f"{count} -= 1"
            )
            if of == "string":
                self.put(f"if {count} > {MAX_STRING}: refuse_string({count})")
        if self.version in field.nullable:
            self.put(f"if {count} < 0: {target} = None")
            with self.source.block("else:"):
                yield count
        else:
            self.put(f"if {count} < 0: refuse_null()")
            yield count

    def array(self, field: Field, target: str) -> None:
        with self.sized(field, target, "array") as count:
            if field.kind in FIXED:
                letter, size = FIXED[field.kind][0], calcsize(">" + FIXED[field.kind][0])
                self.bound(count, size, 1)
                many = self.source.constant(repeated(letter, packing=False), "many")
                if self.stepped:
                    self.put(
                        f"if {count} > {NUMBERS_OF_STEP}: {target} = yield from "
                        f"unpack_in_steps({many}, {size}, view, p, {count})"
                    )
                    self.put(f"else: {target} = {many}[{count}](view, p)", f"p += {count} * {size}")
                else:
                    self.put(f"{target} = {many}[{count}](view, p)", f"p += {count} * {size}")
                return
            element = replace(field, array=False, nullable=NO_VERSION)
            objects = 1 if field.struct is None else 1 + len(field.struct.fields)
            self.bound(
                count, max(_smallest_field(element, self.version, self.flexible), 1), objects
            )
            items, item = self.source.name("items"), self.source.name("item")
            self.put(f"{target} = {items} = []")
            with self.source.block(f"for _ in range({count}):"):
                self.field(element, item)
                self.flush()
                self.put(f"{items}.append({item})")
                if self.stepped:
                    self.put("elements += 1", f"if not elements % {ELEMENTS_OF_STEP}: yield")

    def bound(self, count: str, size: int, objects: int) -> None:
        """Before anything is made: the elements must fit into what is left of the frame, and of the
        objects.
        """
        self.put(f"if {count} * {size} > end - p: refuse_count({count}, end - p)")
        if self.bounded:
            self.put(f"left -= {count} * {objects}", "if left < 0: refuse_objects()")

    def tags(self, tagged: list[Field], row: str) -> None:
        count = self.source.name("tags")
        self.read("B", count)
        self.flush()
        if not tagged:
            self.put(f"if {count}: p = skip_tags(view, p, {count})")
            return
        tag, size, stop = self.source.name("tag"), self.source.name("n"), self.source.name("stop")
        with self.source.block(f"if {count}:"):
            self.put(f"if {count} > 127: {count}, p = tag_count(view, p, {count})")
            with self.source.block(f"for _ in range({count}):"):
                for number in (tag, size):
                    self.put(
                        f"{number} = view[p]",
                        "p += 1",
                        f"if {number} > 127: {number}, p = long_varint(view, p, {number})",
                    )
                self.put(f"{stop} = p + {size}")
                for field in tagged:
                    with self.source.block(f"if {tag} == {field.tag}:"):
                        self.field(field, f"{row}.{field.name}")
                        self.flush()
                        self.put(f"if p != {stop}: refuse_end(p, {stop})")
                self.put(f"p = {stop}")
