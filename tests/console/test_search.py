"""Searches compared with slow ones, which decode each record and know no probes."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftka.client.blocking.batch_reader import Fetched
from raftka.console.decoding.decoder import Decoder, NotReadable
from raftka.console.decoding.masks import Masks
from raftka.console.search import filters, patterns, probes
from raftka.console.search.filters import (
    ANYWHERE,
    HEADERS,
    KEY,
    PLACES,
    VALUE,
    Filter,
    Header,
    Matching,
    Path,
    Seen,
    Text,
)
from raftka.console.search.json_paths import Comparison, NoPath
from raftka.console.search.patterns import NoPattern, TooLong, compile_pattern
from raftka.console.search.scan import Scanner
from raftka.json_values import Json
from raftka.wire.records import NewRecord, Record, build_batch, records_of

# letters that lengths and deltas of records are too, that fold across ASCII, that JSON escapes
LETTERS = 'ab *"\\/ikIKsS\u0130\u0131\u017f\u212aßü\n\x02\x04\x06'
texts = st.text(LETTERS, max_size=8)
words = st.text(LETTERS, min_size=1, max_size=4)
contents = st.none() | texts.map(str.encode) | st.binary(max_size=6)
names = st.sampled_from(["a", "b", "ab", "key", "ssn", "sk\u0130", 'q"'])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
documents = st.builds(
    lambda value, escapes, spaces: json.dumps(
        value, ensure_ascii=escapes, separators=None if spaces else (",", ":")
    ).encode("utf-8", "replace"),
    values,
    st.booleans(),
    st.booleans(),
)
headers = st.lists(st.tuples(words, contents), max_size=2)
records = st.builds(
    lambda key, value, headers, time: (key, value, headers, time),
    contents | documents,
    contents | documents,
    headers,
    st.integers(0, 20),
)
batches = st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=3)
WHERE = ("t", 0)


def fetched(batches: Sequence[Sequence[NewRecord]], compression: int = 0) -> Fetched:
    data, offset = bytearray(), 0
    for each in batches:
        data += build_batch(each, base_offset=offset, compression=compression)
        offset += len(each)
    return Fetched(WHERE, 0, memoryview(data), ())


def fast(given: Fetched, wanted: Filter, decoder: Decoder, stop: int = 1000) -> list[int]:
    scanner = Scanner(wanted, decoder)
    found = [each[1] for each in scanner.scan(given, stop)]
    assert not scanner.progress.unreadable
    return [each.seen.record.offset for each in found if each is not None]


def all_records(batches: Sequence[Sequence[NewRecord]]) -> list[Record]:
    found: list[Record] = []
    offset = 0
    for each in batches:
        found += records_of(memoryview(build_batch(each, base_offset=offset)))
        offset += len(each)
    return found


def slow(batches: Sequence[Sequence[NewRecord]], wanted: Filter, decoder: Decoder) -> list[int]:
    return [
        record.offset for record in all_records(batches) if wanted.matches(Seen(record, decoder))
    ]


def places_of(record: Record, place: str) -> list[bytes]:
    """Written anew, so that the search's own reading of places is tested."""
    found = []
    if place in (ANYWHERE, KEY):
        found.append(record.key)
    if place in (ANYWHERE, VALUE):
        found.append(record.value)
    if place in (ANYWHERE, HEADERS):
        found += [part for name, value in record.headers for part in (name.encode(), value)]
    return [each for each in found if each is not None]


@settings(deadline=None)
@given(batches, words, st.sampled_from(PLACES), st.integers(0, 4))
def test_a_text_is_found_in_just_the_records_that_have_its_bytes(
    written: list[list[NewRecord]], text: str, place: str, compression: int
) -> None:
    expected = [
        record.offset
        for record in all_records(written)
        if any(text.encode() in content for content in places_of(record, place))
    ]

    wanted = Filter([Text(text, place)])
    assert fast(fetched(written, compression), wanted, Decoder()) == expected


@settings(deadline=None)
@given(batches, words, st.sampled_from(PLACES))
@example([[(b"", "\u212aey".encode(), [], 0)]], "key", VALUE)
@example([[(b"", "D\u0130\u017f\u212a".encode(), [], 0)]], "disk", VALUE)
@example([[(b"", b"ABIKS", [], 0)]], "abIk", VALUE)
def test_a_text_is_found_in_upper_and_lower_case(
    written: list[list[NewRecord]], text: str, place: str
) -> None:
    expected = [
        record.offset
        for record in all_records(written)
        if any(
            text.lower() in content.decode("utf-8", "surrogateescape").lower()
            for content in places_of(record, place)
        )
    ]

    assert fast(fetched(written), Filter([Text(text, place, ignores_case=True)]), Decoder()) == (
        expected
    )


PIECES = ["a", "b", "ab", "k", r"\.", r"\\", "[ab]", "[^]a]", "(a)", "(a|b)", ".", "^", "$", r"\d"]
QUANTIFIERS = ["", "", "", "?", "*", "+", "{2}", "{0,1}"]
expressions = st.lists(
    st.builds(lambda piece, times: piece + times, st.sampled_from(PIECES), st.just(""))
    | st.builds(
        lambda piece, times: piece + times,
        st.sampled_from([each for each in PIECES if each not in "^$"]),
        st.sampled_from(QUANTIFIERS),
    ),
    min_size=1,
    max_size=5,
).map("".join)


@settings(deadline=None)
@given(batches, expressions, st.booleans())
@example([[(b"", b"b", [], 0)]], "a*b", False)
@example([[(b"", b"xy", [], 0)]], r"\x78y", False)
@example([[(b"", "\u212aab".encode(), [], 0)]], "kab", True)
@example([[(b"", b"\xe0\xa0", [], 0)]], "[^]a][^]a]", False)
def test_an_expression_is_found_in_just_the_records_that_match(
    written: list[list[NewRecord]], pattern: str, ignores_case: bool
) -> None:
    reference = re.compile(pattern, re.IGNORECASE if ignores_case else 0)
    expected = [
        record.offset
        for record in all_records(written)
        if any(
            reference.search(content.decode("utf-8", "surrogateescape"))
            for content in places_of(record, ANYWHERE)
        )
    ]

    wanted = Filter([Matching(pattern, ignores_case=ignores_case)])
    found = fast(fetched(written), wanted, Decoder())
    if patterns.UNBOUNDED.search(pattern) is None and "\u0130" not in repr(written):
        assert found == expected
    assert found == slow(written, wanted, Decoder())


steps = st.lists(
    names.filter(str.isalpha).map(lambda name: f".{name}")
    | st.sampled_from(["[0]", "[-1]", "[*]", ".*", '["q\\""]']),
    max_size=3,
).map("".join)
comparisons = st.builds(
    lambda steps, rest: f"${steps} {rest}",
    steps,
    st.just("exists")
    | st.builds(
        lambda operator, value: f"{operator} {json.dumps(value)}",
        st.sampled_from(["==", "!=", "contains", "<", "<=", ">", ">="]),
        st.integers(-3, 3) | texts | st.booleans() | st.none(),
    ),
)


@settings(deadline=None)
@given(batches, comparisons, st.sampled_from([KEY, VALUE]))
@example([[(None, b'{"a": "\\u0061b"}', [], 0)]], '$.a == "ab"', VALUE)
@example([[(None, b'{"\\u0061b": "x"}', [], 0)]], "$.ab exists", VALUE)
@example([[(None, b'{"a": "a\\/b"}', [], 0)]], '$.a == "a/b"', VALUE)
def test_a_comparison_finds_just_the_records_that_it_holds_for(
    written: list[list[NewRecord]], text: str, place: str
) -> None:
    wanted = Filter([Path(Comparison.of(text), place)])

    assert fast(fetched(written), wanted, Decoder()) == slow(written, wanted, Decoder())


@settings(deadline=None)
@given(batches, words, st.booleans(), comparisons)
@example([[(None, b'{"ssn":1}', [], 0)]], ':"*', False, "$ exists")
@example([[(None, b'{"ssn":1}', [], 0)]], ':"', False, "$ exists")
@example([[(None, b"\xff" * 8, [], 0)]], "ff", False, "$ exists")
@example([[(None, b"\x82\xa3ssn\x01\xa1a\x07", [], 0)]], '"a": 7', False, "$ exists")
def test_a_search_with_masked_fields_finds_just_what_is_shown(
    written: list[list[NewRecord]], text: str, ignores_case: bool, path: str
) -> None:
    decoder = Decoder(Masks(["ssn", "a.b"]))
    for condition in (Text(text, ignores_case=ignores_case), Path(Comparison.of(path))):
        wanted = Filter([condition])
        assert fast(fetched(written), wanted, decoder) == slow(written, wanted, decoder)


framed = st.builds(
    lambda number, rest: b"\0\0\0\0" + bytes([number]) + rest,
    st.integers(0, 2),
    st.binary(max_size=3),
)
some = contents | framed
schema_batches = st.lists(
    st.lists(
        st.tuples(some, some, st.lists(st.tuples(words, some), max_size=2), st.just(0)),
        min_size=1,
        max_size=6,
    ),
    min_size=1,
    max_size=3,
)


def read_framed(data: bytes) -> tuple[str, Json]:
    """Values whose texts do not stand in their bytes."""
    if data[4] == 0:
        raise NotReadable("no such schema")
    return "avro", {"a": ["ab", "ssn"][data[4] % 2], "ssn": data[5:].hex(), "k": len(data)}


@settings(deadline=None)
@given(schema_batches, st.sampled_from(["ab", "ssn", "s", '"k": 6']) | words, st.booleans())
@example([[(None, b"\0\0\0\0\1", [], 0), (None, b"ab", [], 0)]], "ab", False)
@example([[(None, b"", [("ab", b"\0\0\0\0\2")], 0)]], "ssn", True)
def test_values_with_a_schema_are_found_by_what_is_shown(
    written: list[list[NewRecord]], text: str, masks: bool
) -> None:
    decoder = Decoder(Masks(["ssn"] if masks else []), read_framed)
    for condition in (
        Text(text),
        Text(text, ignores_case=True),
        Path(Comparison.of('$.a == "ab"')),
        Path(Comparison.of("$.k > 5")),
        Header("ab"),
    ):
        wanted = Filter([condition])
        assert fast(fetched(written), wanted, decoder) == slow(written, wanted, decoder)


@settings(deadline=None)
@given(batches, words, st.none() | texts)
def test_a_header_is_found(written: list[list[NewRecord]], name: str, value: str | None) -> None:
    expected = [
        record.offset
        for record in all_records(written)
        if any(
            own == name and (value is None or content == value.encode())
            for own, content in record.headers
        )
    ]
    wanted = Filter([Header(name, value)])
    found = fast(fetched(written), wanted, Decoder())
    # a value that is no text is compared as it is shown
    assert set(expected) <= set(found)
    assert found == slow(written, wanted, Decoder())


@settings(deadline=None)
@given(batches, st.integers(0, 20), st.integers(0, 20))
def test_times_out_of_order_are_found(
    written: list[list[NewRecord]], from_ms: int, to_ms: int
) -> None:
    expected = [
        record.offset for record in all_records(written) if from_ms <= record.timestamp <= to_ms
    ]
    assert fast(fetched(written), Filter((), from_ms, to_ms), Decoder()) == expected


def test_a_text_across_the_border_of_two_records_is_no_match() -> None:
    # the length of the second record is 8: zigzag makes it 16, a control character
    written: list[list[NewRecord]] = [[(None, b"nee", [], 0), (None, b"dle", [], 0)]]
    body = bytes(build_batch(written[0]))[61:]
    across = body[body.index(b"nee") + 1 : body.index(b"dle") + 2].decode()
    assert across.startswith("ee")
    assert across.endswith("dl")

    assert fast(fetched(written), Filter([Text(across)]), Decoder()) == []


def test_a_length_that_looks_like_text_is_no_match() -> None:
    written: list[list[NewRecord]] = [[(b"k", b"x" * 48, [], 0)]]
    body = bytes(build_batch(written[0]))[61:]
    assert b"`x" in body  # the length 48, and the first letter

    assert fast(fetched(written), Filter([Text("`x")]), Decoder()) == []


def test_records_before_the_position_and_behind_the_stop_are_left_out() -> None:
    given_ = fetched([[(None, b"x", [], 0)] * 6])

    assert fast(given_._replace(offset=2), Filter(), Decoder(), stop=4) == [2, 3]


def test_other_characters_than_the_four_match_no_ascii_letter() -> None:
    others = [chr(code) for code in range(128, 0x110000)]
    four = {char for some in probes.UNLIKE_ASCII.values() for char in some}
    lowered = {char for char in others if re.search("[a-z]", char.lower())}
    single = re.compile("[a-z]", re.IGNORECASE)

    assert lowered <= four
    assert {char for char in others if single.fullmatch(char)} == four
    for letter, some in probes.UNLIKE_ASCII.items():
        assert all(re.fullmatch(letter, char, re.IGNORECASE) for char in some)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("order-[0-9]+ done", ["order-", " done"]),
        ("ab+c", ["ab", "c"]),
        ("ab*c", ["a", "c"]),
        ("ab{2}c", ["a", "c"]),
        (r"a\.b", ["a.b"]),
        ("a|b", []),
        ("(ab)c", ["c"]),
        ("(?i)ab", []),
        (r"\x41b", []),
        (r"\dabc", ["abc"]),
        ("x[]ab]c", ["x", "c"]),
        (r"x(a[)]b)c", ["x", "c"]),
        ("aüb", ["a", "b"]),
        ("[", []),
    ],
)
def test_the_literals_of_an_expression(pattern: str, expected: list[str]) -> None:
    assert probes.literals(pattern) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a.b == 1", "begins with"),
        ("$.a", "behind the path comes"),
        ("$.a = 1", "behind the path comes"),
        ("$.a ==", "a value is missing"),
        ('$.a == "x', "no value of JSON"),
        ("$.a exists 1", "nothing comes behind exists"),
        ("$" + ".a" * 51 + " exists", "at most 50 steps"),
    ],
)
def test_what_is_no_comparison_is_refused(text: str, why: str) -> None:
    with pytest.raises(NoPath, match=why):
        Comparison.of(text)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$.a.b == x", True),
        ('$["a"].b == "x"', True),
        ("$.a.c > 4", True),
        ("$.a.c > 5", False),
        ('$.a.c > "4"', False),
        ("$.list[*] == 2", True),
        ("$.list[-1] == 3", True),
        ("$.list contains 2", True),
        ("$.list contains true", False),
        ("$.a.b contains 'x'", True),
        ("$.none != 1", False),
        ("$.a.b != 1", True),
        ("$.a.n exists", True),
        ("$.a.n == null", True),
        ("$.yes == 1", False),
        ("$.yes > 0", False),
        ("$.a.z exists", False),
    ],
)
def test_comparisons(text: str, holds: bool) -> None:
    value = {"a": {"b": "x", "c": 5, "n": None}, "list": [1, 2, 3], "yes": True}
    assert Comparison.of(text).matches(value) is holds


class TestWithoutRe2:
    @pytest.fixture(autouse=True)
    def _no_re2(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        monkeypatch.setitem(sys.modules, "re2", None)

    @pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", r"(a)\1", "(?<=a)b", "(?=a)b"])
    def test_expressions_without_end_are_refused(self, pattern: str) -> None:
        with pytest.raises(NoPattern, match=r"raftka\[regex\]"):
            compile_pattern(pattern, ignores_case=False)

    def test_others_are_taken(self) -> None:
        assert compile_pattern("(?:ab)?[(+)]x", ignores_case=True).search("a AB)X")

    def test_a_long_text_is_not_searched_and_counted(self) -> None:
        written: list[list[NewRecord]] = [
            [(None, b"x" * 20_000 + b"abc", [], 0), (None, b"abc", [], 0)]
        ]
        scanner = Scanner(Filter([Matching("a.*b.*c")]), Decoder())
        found = [each for _, each in scanner.scan(fetched(written), 10) if each is not None]

        assert [each.seen.record.offset for each in found] == [1]
        assert scanner.progress.unsearched == 1
        with pytest.raises(TooLong):
            compile_pattern("a.*b.*c", ignores_case=False).search("x" * 20_000)


@pytest.mark.parametrize("pattern", ["[", "(", "a{2", "*"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    if pattern == "a{2":
        compile_pattern(pattern, ignores_case=False)  # a brace that stands for itself
    else:
        with pytest.raises(NoPattern, match="no regular expression"):
            compile_pattern(pattern, ignores_case=False)


def test_probes_leave_out_what_masks_write() -> None:
    wanted = Filter([Text('ssn":"*'), Text("plain")])
    assert [each.needles for each in wanted.probes(Decoder(Masks(["ssn"])))] == [(b"plain",)]
    assert len(wanted.probes(Decoder())) == 2
    assert filters.MASK_WRITES == b'*"'
