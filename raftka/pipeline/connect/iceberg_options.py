"""Options of Iceberg tables, and their errors as sentences. Knows no catalog."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from raftka.pipeline.connect.options import from_environment, known_options, with_prefix
from raftka.pipeline.errors import OptionRefused

KNOWN = ["table"]
PREFIXES = ["catalog.", "secret."]
NAME = re.compile(r"[^\s.]+(\.[^\s.]+)+")
LOGIN = re.compile(r"://[^/@]*:[^/@]+@")
# in names of properties whose values are to stand nowhere
SECRETS = ("secret", "password", "token", "credential")


@dataclass(frozen=True, slots=True)
class Iceberg:
    table: str  # namespace.name
    catalog: Mapping[str, str]  # as pyiceberg names its properties
    secrets: Mapping[str, str] = field(default_factory=dict)  # names of environment variables

    def properties(self) -> dict[str, str]:
        """Raises OptionRefused for a secret that is not there."""
        return {
            **self.catalog,
            **{
                name: from_environment(variable, f"the catalog's {name}")
                for name, variable in self.secrets.items()
            },
        }


def iceberg_options(given: Mapping[str, str]) -> Iceberg:
    """Raises OptionRefused."""
    options = known_options(given, KNOWN, PREFIXES)
    table, catalog = options.get("table", "").strip(), with_prefix(options, "catalog.")
    secrets = with_prefix(options, "secret.")
    if NAME.fullmatch(table) is None:
        raise OptionRefused(f"table is {table!r}: it is to be namespace.name, such as shop.orders")
    if not {"type", "uri"} & (catalog.keys() | secrets.keys()):
        raise OptionRefused(
            "which catalog? `catalog: {type: rest, uri: https://...}`, or {type: sql, uri: ..., "
            "warehouse: ...}, in pyiceberg's names"
        )
    if both := catalog.keys() & secrets.keys():
        raise OptionRefused(f"the catalog's {min(both)} is given twice, in catalog and in secrets")
    if open_ones := [name for name in catalog if any(each in name for each in SECRETS)]:
        raise OptionRefused(
            f"the catalog's {open_ones[0]} is a secret: name an environment variable for it in "
            "secrets"
        )
    if open_ones := [name for name, value in catalog.items() if LOGIN.search(value)]:
        raise OptionRefused(
            f"the catalog's {open_ones[0]} has a password: name an environment variable for all "
            "of it in secrets"
        )
    return Iceberg(table, catalog, secrets)
