"""Named clusters of the command line: a TOML file with a section for each, its addresses and client
properties. Knows no option and no client.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from raftka.json_values import Json

SERVER = "bootstrap_server"
EXAMPLE = f'a profile is a section, [NAME], with {SERVER} = "HOST:PORT" and client properties'


class Profile(NamedTuple):
    name: str
    server: str  # HOST:PORT[,...]; empty: it has none
    properties: Mapping[str, str]  # Kafka's, of clients


def profiles_file() -> Path:
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))  # one that is not absolute does not count
    return (base if base.is_absolute() else Path.home() / ".config") / "raftka" / "profiles.toml"


def profile_names() -> list[str]:
    """Raises ValueError as `find_profile` does."""
    return sorted(_sections(profiles_file()))


def find_profile(name: str) -> Profile:
    """Raises ValueError, whose text names the file and no value of it: there are passwords in
    it.
    """
    file = profiles_file()
    sections = _sections(file)
    if name not in sections:
        raise ValueError(f"{file} has no profile {name}; {_known(sections)}")
    section = sections[name]
    if not isinstance(section, dict):
        raise ValueError(f"{file}: {name} is no section; {EXAMPLE}")
    properties: dict[str, str] = {}
    for key, value in _flat(section):
        if not isinstance(value, str | int | float):
            raise ValueError(f"{file}: {key} in {name} must be a text, a number, or true or false")
        properties[key] = str(value).lower() if isinstance(value, bool) else str(value)
    if "bootstrap.servers" in properties:
        raise ValueError(f"{file}: bootstrap.servers in {name} must be {SERVER}")
    return Profile(name, properties.pop(SERVER, ""), properties)


def _sections(file: Path) -> Mapping[str, Json]:
    try:
        with file.open("rb") as opened:
            return tomllib.load(opened)
    except FileNotFoundError:
        raise ValueError(f"there is no file {file}; {EXAMPLE}") from None
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file} is no TOML: {error}") from None


def _known(sections: Mapping[str, Json]) -> str:
    return f"it has {', '.join(sorted(sections))}" if sections else EXAMPLE


def _flat(table: Mapping[str, Json], before: str = "") -> Iterator[tuple[str, Json]]:
    """Dots in names make tables in TOML, unless names are quoted: a property may be written either
    way.
    """
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
