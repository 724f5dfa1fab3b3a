"""Links that are cut in one direction, late, or out of order."""

from raftka.chaos.simulated.faults.incident import Incident, kind
from raftka.runtime.simulated.link import DELAY_S

SLOW_DELAY_S = (0.01, 0.2)
SLOW_EVERYWHERE_S = (0.005, 0.05)
HELD_S = (0.2, 6.0)
LOSS = (0.01, 0.3)
REORDERED = (0.05, 0.5)
REORDERED_S = (0.01, 0.5)

Link = tuple[str, str]


def _both(a: str, b: str) -> list[Link]:
    return [(a, b), (b, a)]


def _everywhere(it: Incident) -> list[tuple[str, str]]:
    """Each pair of machines once, clients among them."""
    names = sorted(it.world.machines)
    return [(a, b) for a in names for b in names if a < b]


def _held(it: Incident, what: str, links: list[Link]) -> None:
    it.hold(*links)
    it.for_a_while(what, it.random.uniform(*HELD_S), lambda: it.let_go(*links))


@kind
def cut(it: Incident) -> None:
    a, b = it.pair()
    one_way = it.random.random() < 0.5
    it.world.network.cut(a, b, one_way=one_way)
    _held(it, f"cut {a} {b}{' one way' if one_way else ''}", [(a, b)] if one_way else _both(a, b))


@kind
def isolate(it: Incident) -> None:
    """Half of the times clients still reach it."""
    name = f"n{it.anyone()}"
    others = (
        [f"n{other}" for other in it.cluster.nodes]
        if it.random.random() < 0.5
        else list(it.world.machines)
    )
    for other in others:
        if other != name:
            it.world.network.cut(name, other)
    _held(
        it,
        f"isolate {name}",
        [link for other in others if other != name for link in _both(name, other)],
    )


@kind
def loss(it: Incident) -> None:
    a, b = it.pair()
    it.world.network.loss(a, b, it.random.uniform(*LOSS))
    _held(it, f"loss {a} {b}", _both(a, b))


@kind
def loss_everywhere(it: Incident) -> None:
    """Also between nodes and clients."""
    share, links = it.random.uniform(*LOSS) / 3, _everywhere(it)
    for a, b in links:
        it.world.network.loss(a, b, share)
    _held(it, f"loss everywhere, {share:.0%}", [link for a, b in links for link in _both(a, b)])


@kind
def reorder(it: Incident) -> None:
    a, b = (
        it.pair()
        if it.random.random() < 0.5
        else (f"n{it.anyone()}", it.random.choice(sorted(it.world.machines)))
    )
    if a == b:
        return
    it.world.network.reorder(a, b, it.random.uniform(*REORDERED), it.random.uniform(*REORDERED_S))
    _held(it, f"reorder between connections {a} {b}", _both(a, b))


@kind
def slow_link(it: Incident) -> None:
    a, b = it.pair()
    one_way = it.random.random() < 0.5
    it.world.network.delay(a, b, 0.001, it.random.uniform(*SLOW_DELAY_S), one_way=one_way)
    it.for_a_while(
        f"slow link {a} {b}",
        it.random.uniform(0.5, 5.0),
        lambda: it.world.network.delay(a, b, *DELAY_S),
    )


@kind
def slow_everywhere(it: Incident) -> None:
    links, slow_s = _everywhere(it), it.random.uniform(*SLOW_EVERYWHERE_S)
    for a, b in links:
        it.world.network.delay(a, b, 0.0001, slow_s)

    def usual() -> None:
        for a, b in links:
            it.world.network.delay(a, b, *DELAY_S)

    it.for_a_while(
        f"slow links everywhere, up to {slow_s:.3f} s", it.random.uniform(0.5, 5.0), usual
    )
