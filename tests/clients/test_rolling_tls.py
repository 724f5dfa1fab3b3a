"""Three processes move from PLAINTEXT to TLS with certificates by rolling restarts, under a
producer that loses nothing.
"""

from pathlib import Path

from bench.rolling import change_to_tls


def test_nothing_is_lost_while_a_cluster_moves_to_tls(tmp_path: Path) -> None:
    moved = change_to_tls(tmp_path)
    print(f"longest silence: {moved.silence_s:.2f} s")

    assert moved.acknowledged > 100
    assert moved.lost == 0
