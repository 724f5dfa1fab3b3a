"""CRC-32C, by the C module of the package crc32c.

The package also imports importlib.metadata and argparse, for its version and its command line: 2 MB
in each node that nothing uses. So its C module is loaded alone, and the whole package only where
that module is not found.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    spec = (
        PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if package
        else None
    )
    if spec is None or spec.loader is None:
        module = import_module("crc32c")
    else:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


crc32c = _load()
