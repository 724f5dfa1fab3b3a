"""Functions of ksqlDB that Spark does not know: those that have an expression of the same meaning,
and those that do not.

Functions that both have under one name are Spark's.
"""

import re

# Spark's expressions that several functions have.
ENTRIES = "transform(map_entries({0}), __e -> struct(__e.key AS K, __e.value AS V))"
BEFORE = "left({0}, greatest(len({0}) - {1}, 0))"  # the last letters
RADIUS = "CASE WHEN lower({4}) IN ('mi', 'mile', 'miles') THEN 3959 ELSE 6371 END"  # of the Earth


def _field(count: int) -> str:
    """Return the form of FIELD with so many values that a text is looked for in."""
    values = ", ".join(f"{{{at}}}" for at in range(1, count + 1))
    return f"coalesce(array_position(array({values}), {{0}}), 0)"


def _distance(radius: str) -> str:
    """Return the great circle between two places, by haversines."""
    half = "pow(sin((radians({%d}) - radians({%d})) / 2), 2)"
    cosines = "cos(radians({0})) * cos(radians({2}))"
    return f"(2 * {radius} * asin(sqrt({half % (2, 0)} + {half % (3, 1)} * {cosines})))"


def _mask(of: str) -> str:
    return f"mask({of}, 'X', 'x', 'n', '-')"


def _decoded(part: str) -> str:
    """Return the part of a URL without escapes, where + is no space."""
    return f"try_url_decode(replace({part}, '+', '%2B'))"


# By name: Spark's expression for each number of arguments, the first of which is {0}. Names of
# lambdas begin with two _, as no column does.
ALIASES: dict[str, tuple[str, ...]] = {
    "ARRAY_CONCAT": ("coalesce(concat({0}, {1}), {0}, {1})",),
    "ARRAY_LENGTH": ("array_size({0})",),
    "AS_VALUE": ("({0})",),
    "ATTR": ("if(count({0}) = count(*) AND min({0}) = max({0}), min({0}), NULL)",),
    "CONVERT_TZ": ("from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})",),
    "COUNT_DISTINCT": ("approx_count_distinct({0})",),
    "DATESUB": ("CAST(timestampadd({0}, -({1}), {2}) AS DATE)",),
    "DATETOSTRING": ("date_format(date_from_unix_date({0}), {1})",),
    "EARLIEST_BY_OFFSET": (
        "min_by({0}, nvl2({0}, _offset, NULL))",
        "min_by({0}, nvl2({0}, _offset, NULL), {1})",
        "if({2}, min_by({0}, nvl2({0}, _offset, NULL), {1}), min_by({0}, _offset, {1}))",
    ),
    "ENTRIES": (
        ENTRIES,
        f"if({{1}}, sort_array({ENTRIES}), {ENTRIES})",
    ),
    "EXTRACTJSONFIELD": ("get_json_object({0}, {1})",),
    "FIELD": tuple(map(_field, range(2, 8))),
    "FORMAT_DATE": ("date_format({0}, {1})",),
    "FORMAT_TIMESTAMP": (
        "date_format({0}, {1})",
        "date_format(from_utc_timestamp({0}, {2}), {1})",
    ),
    "FROM_BYTES": (
        "CASE lower({1}) WHEN 'utf8' THEN decode({0}, 'UTF-8') "
        "WHEN 'ascii' THEN decode({0}, 'US-ASCII') WHEN 'hex' THEN hex({0}) "
        "WHEN 'base64' THEN replace(base64({0}), '\\r\\n', '') END",
    ),
    "FROM_DAYS": ("date_from_unix_date({0})",),
    "GENERATE_SERIES": ("sequence({0}, {1})", "sequence({0}, {1}, {2})"),
    "GEO_DISTANCE": (_distance("6371"), _distance(RADIUS)),
    "HISTOGRAM": (
        "map_from_entries(transform(filter(approx_top_k({0}, 1000), __e -> "
        "__e.item IS NOT NULL), __e -> struct(CAST(__e.item AS STRING), __e.count)))",
    ),
    "IS_JSON_STRING": ("(try_parse_json({0}) IS NOT NULL)",),
    "JSON_KEYS": ("json_object_keys({0})",),
    "LATEST_BY_OFFSET": (
        "max_by({0}, nvl2({0}, _offset, NULL))",
        "reverse(max_by({0}, nvl2({0}, _offset, NULL), {1}))",
        "reverse(if({2}, max_by({0}, nvl2({0}, _offset, NULL), {1}), max_by({0}, _offset, {1})))",
    ),
    "MAP_UNION": (
        "coalesce(map_concat(map_filter({0}, (__k, __v) -> NOT map_contains_key({1}, __k)), "
        "{1}), {0}, {1})",
    ),
    "MASK_KEEP_LEFT": (f"concat(left({{0}}, {{1}}), {_mask('substr({0}, {1} + 1)')})",),
    "MASK_KEEP_RIGHT": (f"concat({_mask(BEFORE)}, right({{0}}, {{1}}))",),
    "MASK_LEFT": (f"concat({_mask('left({0}, {1})')}, substr({{0}}, {{1}} + 1))",),
    "MASK_RIGHT": (f"concat({BEFORE}, {_mask('right({0}, {1})')})",),
    "PARSE_DATE": ("try_to_date({0}, {1})",),
    "PARSE_TIMESTAMP": (
        "try_to_timestamp({0}, {1})",
        "to_utc_timestamp(try_to_timestamp({0}, {1}), {2})",
    ),
    "STRINGTODATE": ("unix_date(try_to_date({0}, {1}))",),
    "STRINGTOTIMESTAMP": (
        "unix_millis(try_to_timestamp({0}, {1}))",
        "unix_millis(to_utc_timestamp(try_to_timestamp({0}, {1}), {2}))",
    ),
    "TIMESTAMPSUB": ("timestampadd({0}, -({1}), {2})",),
    "TIMESTAMPTOSTRING": (
        "date_format(timestamp_millis({0}), {1})",
        "date_format(from_utc_timestamp(timestamp_millis({0}), {2}), {1})",
    ),
    "TOPK": ("max_by({0}, {0}, {1})",),
    "TOPKDISTINCT": ("slice(sort_array(collect_set({0}), false), 1, {1})",),
    "TO_BYTES": (
        "CASE lower({1}) WHEN 'utf8' THEN encode({0}, 'UTF-8') "
        "WHEN 'ascii' THEN encode({0}, 'US-ASCII') WHEN 'hex' THEN unhex({0}) "
        "WHEN 'base64' THEN unbase64({0}) END",
    ),
    "URL_DECODE_PARAM": ("try_url_decode({0})",),
    "URL_ENCODE_PARAM": ("url_encode({0})",),
    "URL_EXTRACT_FRAGMENT": (_decoded("try_parse_url({0}, 'REF')"),),
    "URL_EXTRACT_HOST": ("try_parse_url({0}, 'HOST')",),
    "URL_EXTRACT_PARAMETER": (_decoded("try_parse_url({0}, 'QUERY', {1})"),),
    "URL_EXTRACT_PATH": (_decoded("try_parse_url({0}, 'PATH')"),),
    "URL_EXTRACT_PORT": (
        "try_cast(nullif(regexp_extract(try_parse_url({0}, 'AUTHORITY'), ':([0-9]+)$', 1), "
        "'') AS INT)",
    ),
    "URL_EXTRACT_PROTOCOL": ("try_parse_url({0}, 'PROTOCOL')",),
    "URL_EXTRACT_QUERY": (_decoded("try_parse_url({0}, 'QUERY')"),),
}

# Letters of a format, the second argument, that mean the same in Spark.
WRITTEN, READ = "yMdHhmsSaE", "yMdHmsS"
FORMATS = {
    "DATETOSTRING": WRITTEN,
    "FORMAT_DATE": WRITTEN,
    "FORMAT_TIMESTAMP": WRITTEN,
    "PARSE_DATE": READ,
    "PARSE_TIMESTAMP": READ,
    "STRINGTODATE": READ,
    "STRINGTOTIMESTAMP": READ,
    "TIMESTAMPTOSTRING": WRITTEN,
}

# By name: the nearest expression of Spark, whose meaning is another one.
OTHERS = {
    "AS_MAP": "map_from_arrays(keys, values)",
    "BIGINT_FROM_BYTES": "CAST(conv(hex(x), 16, 10) AS BIGINT), of numbers that are not negative",
    "CORRELATION": "corr(x, y)",
    "CUBE_EXPLODE": "GROUP BY CUBE",
    "DOUBLE_FROM_BYTES": "a function of your own: CREATE FUNCTION",
    "FORMAT_TIME": "date_format(t, 'HH:mm:ss')",
    "INT_FROM_BYTES": "CAST(conv(hex(x), 16, 10) AS BIGINT), of numbers that are not negative",
    "JSON_ARRAY_CONTAINS": "array_contains(from_json(x, 'array<string>'), y)",
    "JSON_CONCAT": "to_json of map_concat(from_json(a, 'map<string, string>'), ...)",
    "JSON_ITEMS": "from_json(x, 'array<string>')",
    "JSON_RECORDS": "from_json(x, 'map<string, string>')",
    "PARSE_TIME": "to_time(x, 'HH:mm:ss')",
    "REGEXP_SPLIT_TO_ARRAY": "split(x, pattern)",
    "SPLIT_TO_MAP": "str_to_map(x, a, b)",
    "STDDEV_SAMPLE": "stddev_samp(x)",
    "TIMEADD": "timestampadd(unit, n, t)",
    "TIMESUB": "timestampadd(unit, n, t)",
    "TO_JSON_STRING": "to_json(x)",
}

# By name: the form where the second of two arguments is TRUE or FALSE: whether null is left out.
FLAGGED = {
    "EARLIEST_BY_OFFSET": "if({1}, min_by({0}, nvl2({0}, _offset, NULL)), min_by({0}, _offset))",
    "LATEST_BY_OFFSET": "if({1}, max_by({0}, nvl2({0}, _offset, NULL)), max_by({0}, _offset))",
}
LAMBDAS = ("FILTER", "REDUCE", "TRANSFORM")  # in which ksqlDB writes => for ->

ARGUMENT = re.compile(r"\{(\d)\}")
LETTERS = "abcdefghi"
QUOTED = re.compile(r"'[^']*'")  # of a format: plain text


def arguments_of(form: str) -> int:
    """Return the number of arguments of a form."""
    return 1 + max(int(each) for each in ARGUMENT.findall(form))


def shown(form: str) -> str:
    """Return a form with the arguments a, b, c, ..."""
    return ARGUMENT.sub(lambda found: LETTERS[int(found[1])], form)


def call_of(name: str, form: str) -> str:
    """Return the call that a form is for, with the arguments a, b, c, ..."""
    return f"{name}({', '.join(LETTERS[: arguments_of(form)])})"


def strange_letter(name: str, pattern: str) -> str | None:
    """Return the first letter of a format whose meaning may be another one in Spark."""
    letters = QUOTED.sub("", pattern)
    known = FORMATS[name]
    return next((each for each in letters if each.isalpha() and each not in known), None)
