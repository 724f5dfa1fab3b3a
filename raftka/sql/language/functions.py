"""Functions of ksqlDB that Spark does not know: those that have an expression of the same meaning,
and those that do not.

Functions that both have under one name are Spark's.
"""

import re

# By name: Spark's expression for each number of arguments, the first of which is {0}.
ALIASES: dict[str, tuple[str, ...]] = {
    "ARRAY_LENGTH": ("array_size({0})",),
    "AS_VALUE": ("({0})",),
    "CONVERT_TZ": ("from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})",),
    "COUNT_DISTINCT": ("approx_count_distinct({0})",),
    "DATETOSTRING": ("date_format(date_from_unix_date({0}), {1})",),
    "EARLIEST_BY_OFFSET": ("min_by({0}, nvl2({0}, _offset, NULL))",),
    "EXTRACTJSONFIELD": ("get_json_object({0}, {1})",),
    "FORMAT_DATE": ("date_format({0}, {1})",),
    "FORMAT_TIMESTAMP": (
        "date_format({0}, {1})",
        "date_format(from_utc_timestamp({0}, {2}), {1})",
    ),
    "FROM_DAYS": ("date_from_unix_date({0})",),
    "GENERATE_SERIES": ("sequence({0}, {1})", "sequence({0}, {1}, {2})"),
    "JSON_KEYS": ("json_object_keys({0})",),
    "LATEST_BY_OFFSET": ("max_by({0}, nvl2({0}, _offset, NULL))",),
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
    "TIMESTAMPTOSTRING": (
        "date_format(timestamp_millis({0}), {1})",
        "date_format(from_utc_timestamp(timestamp_millis({0}), {2}), {1})",
    ),
    "TOPK": ("slice(sort_array(collect_list({0}), false), 1, {1})",),
    "TOPKDISTINCT": ("slice(sort_array(collect_set({0}), false), 1, {1})",),
    "URL_EXTRACT_HOST": ("try_parse_url({0}, 'HOST')",),
    "URL_EXTRACT_PROTOCOL": ("try_parse_url({0}, 'PROTOCOL')",),
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
    "ARRAY_CONCAT": "concat(a, b)",
    "AS_MAP": "map_from_arrays(keys, values)",
    "ATTR": "any_value(x)",
    "CORRELATION": "corr(x, y)",
    "CUBE_EXPLODE": "GROUP BY CUBE",
    "DATESUB": "date_sub(d, days)",
    "ENTRIES": "map_entries(m)",
    "FIELD": "array_position(array(a, b), x)",
    "FROM_BYTES": "decode(x, 'UTF-8'), hex(x) or base64(x)",
    "GEO_DISTANCE": "an expression with acos, sin and cos",
    "HISTOGRAM": "GROUP BY x with count(*)",
    "IS_JSON_STRING": "try_parse_json(x) IS NOT NULL",
    "JSON_ARRAY_CONTAINS": "array_contains(from_json(x, 'array<string>'), y)",
    "JSON_ITEMS": "from_json(x, 'array<string>')",
    "JSON_RECORDS": "from_json(x, 'map<string, string>')",
    "MAP_UNION": "map_concat(a, b)",
    "MASK_KEEP_LEFT": "concat(left(x, n), mask(substr(x, n + 1)))",
    "MASK_KEEP_RIGHT": "concat(mask(left(x, len(x) - n)), right(x, n))",
    "MASK_LEFT": "concat(mask(left(x, n)), substr(x, n + 1))",
    "MASK_RIGHT": "concat(left(x, len(x) - n), mask(right(x, n)))",
    "REGEXP_SPLIT_TO_ARRAY": "split(x, pattern)",
    "SPLIT_TO_MAP": "str_to_map(x, a, b)",
    "STDDEV_SAMPLE": "stddev_samp(x)",
    "TIMESTAMPSUB": "timestampadd(unit, -n, t)",
    "TO_BYTES": "encode(x, 'UTF-8'), unhex(x) or unbase64(x)",
    "TO_JSON_STRING": "to_json(x)",
    "URL_DECODE_PARAM": "url_decode(x)",
    "URL_ENCODE_PARAM": "url_encode(x)",
    "URL_EXTRACT_FRAGMENT": "try_parse_url(x, 'REF')",
    "URL_EXTRACT_PARAMETER": "try_parse_url(x, 'QUERY', name)",
    "URL_EXTRACT_PATH": "try_parse_url(x, 'PATH')",
    "URL_EXTRACT_QUERY": "try_parse_url(x, 'QUERY')",
}

ARGUMENT = re.compile(r"\{(\d)\}")
QUOTED = re.compile(r"'[^']*'")  # of a format: plain text


def arguments_of(form: str) -> int:
    """Return the number of arguments of a form."""
    return 1 + max(int(each) for each in ARGUMENT.findall(form))


def shown(form: str) -> str:
    """Return a form with the arguments a, b, c."""
    return ARGUMENT.sub(lambda found: "abc"[int(found[1])], form)


def call_of(name: str, form: str) -> str:
    """Return the call that a form is for, with the arguments a, b, c."""
    return f"{name}({', '.join('abc'[: arguments_of(form)])})"


def strange_letter(name: str, pattern: str) -> str | None:
    """Return the first letter of a format whose meaning may be another one in Spark."""
    letters = QUOTED.sub("", pattern)
    known = FORMATS[name]
    return next((each for each in letters if each.isalpha() and each not in known), None)
