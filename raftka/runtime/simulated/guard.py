"""`sim_guard()`: while it holds, code that asks the real world for time, chance, sockets or threads
gets an exception instead of an answer that no seed can repeat. Names the functions that it traps
and uses none of them. Other threads of the process, not begun by a simulation, are free.
"""

import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

TRAPPED = {
    "time": "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns sleep",
    "random": (
        "random randint randrange choice choices sample shuffle uniform gauss getrandbits "
        "randbytes expovariate betavariate seed SystemRandom"
    ),
    "os": "urandom getrandom",
    "uuid": "uuid1 uuid4",
    "secrets": "token_bytes token_hex token_urlsafe randbelow choice randbits",
    "socket": "socket socketpair create_connection create_server getaddrinfo",
    "threading": "Thread Timer",
}
ALLOWED_CALLERS = ("logging", "_pytest", "pytest")  # the time of a log line comes back to nobody


class Unrepeatable(AssertionError):
    """Code in a simulation has reached around the runtime."""


_depth = 0
_thread = 0  # the one whose simulation it is
_lifted = 0
_originals: list[tuple[object, str, object]] = []
# by name: what it stands for, and the trap: made once, a simulated life sets them hundreds of times
_traps: dict[str, tuple[object, object]] = {}


def _is_lifted() -> bool:
    return bool(_lifted) or get_ident() != _thread


def _trap(name: str, original: Any) -> Callable[..., object]:
    def trapped(*args: Any, **kwargs: Any) -> object:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if _is_lifted() or caller.split(".", maxsplit=1)[0] in ALLOWED_CALLERS:
            return original(*args, **kwargs)
        _refuse(name, caller)

    return trapped


def _refuse(name: str, caller: str) -> NoReturn:
    raise Unrepeatable(f"{caller} calls {name} in a simulation: ask the runtime")


def _trap_class(name: str, original: Any) -> object:
    """A class stays one: others inherit from it and ask isinstance."""

    class Trapped(original):  # type: ignore[misc]
        def __init__(self, *args: object, **kwargs: object) -> None:
            if not _is_lifted():
                _refuse(name, sys._getframe(1).f_globals.get("__name__", ""))
            super().__init__(*args, **kwargs)

    return Trapped


def _set_traps() -> None:
    # all first: they ask for such things while they load
    modules = {name: import_module(name) for name in TRAPPED}
    for module_name, names in TRAPPED.items():
        module = modules[module_name]
        for name in names.split():
            original = getattr(module, name, None)
            if original is not None:
                _originals.append((module, name, original))
                setattr(module, name, _trap_of(f"{module_name}.{name}", original))
    _trap_unseeded(modules["random"].Random)


def _trap_of(name: str, original: object) -> object:
    known = _traps.get(name)
    if known is None or known[0] is not original:
        make = _trap_class if isinstance(original, type) else _trap
        known = _traps[name] = original, make(name, original)
    return known[1]


def _trap_unseeded(random_class: Any) -> None:
    original = random_class.seed

    def seed(self: object, a: object = None, version: int = 2) -> None:
        if a is None and not _is_lifted():
            _refuse(
                "random.Random() without a seed", sys._getframe(2).f_globals.get("__name__", "")
            )
        original(self, a, version)

    _originals.append((random_class, "seed", original))
    random_class.seed = seed


@contextmanager
def sim_guard() -> Iterator[None]:
    """Inside another one it does nothing more."""
    global _depth, _thread
    if not _depth:
        _thread = get_ident()
        _set_traps()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            while _originals:
                owner, name, original = _originals.pop()
                setattr(owner, name, original)


@contextmanager
def guard_lifted() -> Iterator[None]:
    """For the simulation's own needs."""
    global _lifted
    _lifted += 1
    try:
        yield
    finally:
        _lifted -= 1
