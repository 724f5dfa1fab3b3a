"""The immutable map of a package: like a dict, and whoever holds an older one keeps it."""

from random import Random

from raftka.metadata.entries import BUCKETS, Entries


def test_the_map_equals_a_dict() -> None:
    random, entries, model = Random(1), Entries(), dict[bytes, bytes]()
    for _ in range(300):
        changes = {
            b"%d" % random.randrange(3 * BUCKETS): (
                b"%d" % random.random() if random.random() < 0.7 else None
            )
            for _ in range(random.randrange(20))
        }
        before, was = entries, dict(entries)
        entries = entries.changed(changes)
        for key, value in changes.items():
            model.pop(key, None) if value is None else model.update({key: value})

        assert entries == model
        assert len(entries) == len(model)
        assert dict(before) == was
    assert all(entries[key] == value for key, value in model.items())
    assert entries.get(b"nobody") is None


def test_a_change_leaves_all_other_buckets_as_they_are() -> None:
    before = Entries({b"%d" % i: b"" for i in range(10 * BUCKETS)})

    after = before.changed({b"1": b"x"})

    groups = [(a, b) for a, b in zip(before._groups, after._groups, strict=True) if a is not b]
    assert len(groups) == 1
    assert sum(a is not b for a, b in zip(*groups[0], strict=True)) == 1
