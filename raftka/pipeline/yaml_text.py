"""YAML of projects: plain values, and no name twice in one mapping, of which YAML itself would take
the last one in silence.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused

if TYPE_CHECKING:
    import yaml


def read_yaml(path: Path) -> Json:
    """Raises OptionRefused, and FileNotFoundError."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(
            self, node: "yaml.MappingNode", deep: bool = False
        ) -> dict[Hashable, Json]:
            seen: set[str] = set()
            for key, _ in node.value:
                name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
                if name and name != "<<" and name in seen:
                    raise OptionRefused(
                        f"{path}, line {key.start_mark.line + 1}: {name} is there twice"
                    )
                seen.add(name)
            return dict(super().construct_mapping(node, deep))

    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise OptionRefused(f"{path} is no YAML: {error}") from None
    except IsADirectoryError:
        raise OptionRefused(f"{path} is a folder") from None
