"""An API: its versions, its two messages, and their codecs, compiled at first use. Knows neither
frames nor what the messages mean.
"""

from collections.abc import Callable, Generator
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from raftka.wire.codec import Piece
from raftka.wire.decoder import (
    Decoder,
    Locator,
    SteppedDecoder,
    compile_decoder,
    compile_locator,
    compile_stepped_decoder,
)
from raftka.wire.encoder import (
    EncodedRows,
    Encoder,
    compile_encoder,
    encode_compact_string,
    encode_string,
)
from raftka.wire.errors import ProtocolError
from raftka.wire.notation import parse_struct, parse_versions
from raftka.wire.rows import NO_VERSION, ZERO_UUID, Row, Struct, Versions

__all__ = [
    "ZERO_UUID",
    "AnyApi",
    "Api",
    "Element",
    "Req",
    "Resp",
    "Row",
    "Struct",
    "Versions",
    "api",
    "row_classes",
]

Req = TypeVar("Req", bound=Row)
Resp = TypeVar("Resp", bound=Row)
Element = TypeVar("Element", bound=Row)


def api(
    name: str,
    key: int,
    *,
    versions: str,
    flexible: str | None,
    request: str,
    response: str,
    announce: str | None = None,
) -> "AnyApi":
    """`versions` are those whose messages are known, `announce` (default: the same) those that
    ApiVersions shows; notation.py tells the rest.
    """
    known = parse_versions(versions)
    return Api(
        name,
        key,
        known,
        flexible=parse_versions(flexible) if flexible else NO_VERSION,
        announced=parse_versions(announce) if announce else known,
        request=request,
        response=response,
    )


def row_classes(*apis: "AnyApi") -> Callable[[str], type[Row]]:
    """The `__getattr__` of a module of messages: its classes of rows by name (`FetchTopic`), each
    made when it is first asked for.
    """

    def row_class(name: str) -> type[Row]:
        if name[0].isupper():
            for api in apis:
                for struct in (*api.request.struct.structs(), *api.response.struct.structs()):
                    if struct.name == name:
                        found: type[Row] = struct.row
                        return found
        raise AttributeError(f"no row of these messages is a {name}")

    return row_class


class Api(Generic[Req, Resp]):
    """Requests are decoded as a stranger's: with a limit on the objects made. Responses only within
    what their bytes allow.
    """

    def __init__(
        self,
        name: str,
        key: int,
        versions: Versions,
        *,
        flexible: Versions,
        announced: Versions,
        request: str,
        response: str,
    ) -> None:
        self.name = name
        self.key = key
        self.versions = versions
        self.announced = announced
        self.flexible = flexible
        self._texts = request, response
        self._decoders: tuple[dict[int, Decoder], dict[int, Decoder]] = ({}, {})
        self._locators: dict[tuple[bool, int, tuple[str, ...]], Locator] = {}
        self._encoders: tuple[dict[int, Encoder], dict[int, Encoder]] = ({}, {})
        self._stepped: dict[int, SteppedDecoder] = {}
        self._row_encoders: dict[tuple[type[Row], int], Encoder] = {}

    @property
    def min_version(self) -> int:
        return self.versions.low

    @property
    def max_version(self) -> int:
        return self.versions.high

    @cached_property
    def request(self) -> type[Req]:
        """The class of its requests; the classes of the rows inside are its attributes, by the
        names of the fields.
        """
        return cast(type[Req], parse_struct(f"{self.name}Request", self._texts[0]).row)

    @cached_property
    def response(self) -> type[Resp]:
        return cast(type[Resp], parse_struct(f"{self.name}Response", self._texts[1]).row)

    def decode_request(self, version: int, view: memoryview, position: int = 0) -> tuple[Req, int]:
        """The row, and the position behind it. `records` are slices of `view`. Raises
        ProtocolError.
        """
        return (self._decoders[0].get(version) or self._decoder(0, version))(view, position)

    def decode_request_in_steps(
        self, version: int, view: memoryview, position: int = 0
    ) -> Generator[None, None, tuple[Req, int]]:
        """The same as a generator, which yields now and then."""
        decode = self._stepped.get(version)
        if decode is None:
            self._check_known(version)
            decode = self._stepped[version] = compile_stepped_decoder(
                self.request.struct, version, flexible=version in self.flexible
            )
        return decode(view, position)

    def encoded_rows(self, version: int, row: type[Element]) -> EncodedRows[Element]:
        """For an array of a response, whose elements are of class `row`."""
        encode = self._row_encoders.get((row, version))
        if encode is None:
            encode = self._row_encoders[row, version] = compile_encoder(
                row.struct, version, flexible=version in self.flexible
            )
        return EncodedRows(encode)

    def encoded_strings(self, version: int) -> EncodedRows[str]:
        """For an array of strings of a response."""
        return EncodedRows(encode_compact_string if version in self.flexible else encode_string)

    def decode_response(
        self, version: int, view: memoryview, position: int = 0
    ) -> tuple[Resp, int]:
        return (self._decoders[1].get(version) or self._decoder(1, version))(view, position)

    def encode_request(self, version: int, row: Req) -> bytes:
        """Without header. Raises ValueError for a value that this version can not carry."""
        parts: list[Any] = []
        self.request_parts(version, row, parts)
        return b"".join(parts)

    def encode_response(self, version: int, row: Resp) -> bytes:
        parts: list[Any] = []
        self.response_parts(version, row, parts)
        return b"".join(parts)

    def request_parts(self, version: int, row: Req, parts: list[Piece]) -> None:
        """Append the pieces of the encoding; those of `records` as they are, buffers or spans of
        files.
        """
        (self._encoders[0].get(version) or self._encoder(0, version))(row, parts)

    def response_parts(self, version: int, row: Resp, parts: list[Piece]) -> None:
        (self._encoders[1].get(version) or self._encoder(1, version))(row, parts)

    def request_positions(
        self, version: int, view: memoryview, position: int, *paths: str
    ) -> tuple[list[int], ...]:
        """Find where the values of the fields begin in `view`, a list for each path
        (`topics.partitions.offset`). Raises ProtocolError.
        """
        return self._locator(self.request.struct, version, paths)(view, position)

    def response_positions(
        self, version: int, view: memoryview, position: int, *paths: str
    ) -> tuple[list[int], ...]:
        return self._locator(self.response.struct, version, paths)(view, position)

    def _locator(self, struct: Struct, version: int, paths: tuple[str, ...]) -> Locator:
        key = struct is self.request.struct, version, paths
        if key not in self._locators:
            self._locators[key] = compile_locator(
                struct, version, paths, flexible=version in self.flexible
            )
        return self._locators[key]

    def _decoder(self, side: int, version: int) -> Decoder:
        self._check_known(version)
        struct = self._struct(side)
        self._decoders[side][version] = compile_decoder(
            struct, version, flexible=version in self.flexible, bounded=side == 0
        )
        return self._decoders[side][version]

    @cached_property
    def answers_with_records(self) -> bool:
        """Somewhere in its responses are record batches."""
        return self.response.struct.carries_records

    def _struct(self, side: int) -> Struct:
        return self.response.struct if side else self.request.struct

    def _check_known(self, version: int) -> None:
        if version not in self.versions:
            raise ProtocolError(
                f"{self.name} v{version}: versions {self.min_version} to {self.max_version} are "
                "known"
            )

    def _encoder(self, side: int, version: int) -> Encoder:
        if version not in self.versions:
            raise ValueError(
                f"{self.name} v{version}: versions {self.min_version} to {self.max_version} are "
                "known"
            )
        struct = self._struct(side)
        self._encoders[side][version] = compile_encoder(
            struct, version, flexible=version in self.flexible
        )
        return self._encoders[side][version]

    def __repr__(self) -> str:
        return f"<api {self.name} {self.key}>"


AnyApi = Api[Any, Any]
