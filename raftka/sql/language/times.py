"""Times of a query: a number, and SECONDS, MINUTES and other units."""

from raftka.sql.language.reader import Reader

UNITS = {  # in milliseconds
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}


def take_duration(reader: Reader, least: int = 1) -> tuple[str, int]:
    """Take a time; return it as Spark writes it, and its milliseconds. Raise StatementError."""
    at = reader.next.at
    number = reader.number("a number of SECONDS, MINUTES, ...")
    if number < least:
        reader.refuse(f"the time begins at {least}. Next step: a larger number", at)
    unit = reader.one_of(*UNITS, *(f"{each}S" for each in UNITS))
    return f"{number} {unit.lower()}", number * UNITS[unit.removesuffix("S")]
