"""TLS records that nobody would send, to both ends of a connection without a network. The same seed
gives the same attacks.

Bytes are made up, or those of a real handshake and of real records are changed, cut, doubled and
mixed on their way. Whatever comes, an end hands on nothing that the other has not sent, raises
nothing, and does not turn in circles.
"""

from collections import Counter, deque
from random import Random

from tests.security.tls_pair import AUTHORITY, SERVER, End, Pair, settings

MOST_ROOMS = 2000  # that one end asks for in an attack: more is a circle
RECORDS = (
    b"\x16\x03\x01",
    b"\x16\x03\x03",
    b"\x17\x03\x03",
    b"\x14\x03\x03",
    b"\x15\x03\x03",
    b"\x80\x2e\x01",
    b"\x16\x02\x00",
)
HANDSHAKES = 2  # of three attacks change a handshake, the others records behind it


class Asked(deque[int]):
    """No places for bytes, and a count of the questions for one."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def __bool__(self) -> bool:
        self.times += 1
        assert self.times < MOST_ROOMS, "an end turns in circles"
        return False


class Attacked(Pair):
    """A link that changes bytes on their way once `random` is set."""

    def __init__(self, random: Random | None) -> None:
        self.random = random
        self.moves = 0
        super().__init__(settings(SERVER.key_store), settings(trusted=AUTHORITY.trusted))
        for end in self.ends:
            end.inner.rooms = Asked()

    def _deliver(self, data: bytes, there: End) -> None:
        self.moves += 1
        assert self.moves < MOST_ROOMS, "two ends talk without end"
        for piece in changed(data, self.random) if self.random is not None else [data]:
            there.tls.receive(memoryview(bytearray(piece)))


def changed(data: bytes, random: Random) -> list[bytes]:
    """The pieces that arrive."""
    made = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        at = random.randrange(len(made)) if made else 0
        match random.randrange(8):
            case 0 if made:
                made[at] ^= 1 << random.randrange(8)
            case 1 if made:
                made[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del made[at:]
            case 3:
                del made[at : at + random.choice((1, 2, 5, 16))]
            case 4:
                made[at:at] = random.randbytes(random.choice((1, 5, 40)))
            case 5:
                made[at:at] = made_up(random)
            case 6:
                made += data
            case 7:
                made[3:5] = random.choice(
                    (b"\x00\x00", b"\xff\xff", b"\x40\x00", b"\x41\x00", b"\x00\x01")
                )
    if random.random() < 0.2:
        made += made_up(random)
    pieces = [
        bytes(made[at : at + size])
        for size in [random.choice((1, 5, 100, 1 << 20))]
        for at in range(0, len(made), size)
    ]
    return pieces[:1000] if pieces else [b""]


def made_up(random: Random) -> bytes:
    if random.random() < 0.3:
        return random.randbytes(random.choice((1, 4, 5, 6, 200)))
    body = random.randbytes(random.choice((0, 1, 2, 40, 300)))
    size = len(body) if random.random() < 0.7 else random.choice((0, 1, 0x4000, 0x4800, 0xFFFF))
    return random.choice(RECORDS) + size.to_bytes(2) + body


def attack(count: int, seed: int) -> Counter[str]:
    """Return the ends of the attacks."""
    random = Random(seed)
    ends: Counter[str] = Counter()
    for at in range(count):
        both = Attacked(random if at % 3 < HANDSHAKES else None)
        sent = {end: random.randbytes(random.choice((0, 1, 300, 20_000))) for end in both.ends}
        both.random = random
        for end in both.ends:
            end.inner.transport.wake()
            end.inner.out.append(sent[end])
        both.moves = 0
        both.run()
        for here, there in (both.ends, both.ends[::-1]):
            assert sent[there].startswith(bytes(here.inner.come)), "bytes came that nobody has sent"
        ends[
            "closed"
            if any(end.closing for end in both.ends)
            else "whole"
            if both.client.inner.come == sent[both.server]
            else "waits"
        ] += 1
    return ends
