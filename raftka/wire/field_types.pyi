"""Types of the fields of rows, for the stubs beside the messages: no row is made of them, its attributes are slots.

A field of structs has two types: of a row it is rows, of a class of rows it is the class of those (`FetchRequest.topics` is FetchTopic).
"""

from collections.abc import Sequence
from typing import Generic, TypeVar, overload

from raftka.runtime.interfaces import Buffer, FileSpan
from raftka.runtime.memory import Owned
from raftka.wire.encoder import EncodedRows
from raftka.wire.rows import Row

InnerRow = TypeVar("InnerRow", bound=Row)
Value = TypeVar("Value")
RecordBytes = Buffer | FileSpan | Sequence[Buffer | FileSpan]
Rows = Sequence[InnerRow] | EncodedRows[InnerRow]

class One(Generic[InnerRow, Value]):
    """`Value` is InnerRow, or None too."""

    @overload
    def __get__(self, row: None, owner: type[Row]) -> type[InnerRow]: ...
    @overload
    def __get__(self, row: Row, owner: type[Row]) -> Value: ...
    def __set__(self, row: Row, value: Value) -> None: ...

class Many(Generic[InnerRow, Value]):
    """`Value` is a sequence of InnerRow, or None too."""

    @overload
    def __get__(self, row: None, owner: type[Row]) -> type[InnerRow]: ...
    @overload
    def __get__(self, row: Row, owner: type[Row]) -> Value: ...
    def __set__(self, row: Row, value: Value | EncodedRows[InnerRow]) -> None: ...

class Records:
    """Of a response: a decoded row has a slice of its message, which may be gone with the turn."""

    def __get__(self, row: Row, owner: type[Row]) -> memoryview | None: ...
    def __set__(self, row: Row, value: RecordBytes | None) -> None: ...

class OwnedRecords:
    """Of a request: a decoded row has a slice of its frame, which the request owns."""

    def __get__(self, row: Row, owner: type[Row]) -> Owned | None: ...
    def __set__(self, row: Row, value: RecordBytes | None) -> None: ...
