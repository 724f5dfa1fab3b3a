"""The bytes of every format at every level are those that releases have written. A change of them
needs a new level: docs/versions.md says how.
"""

import json

import pytest

from raftka.metadata.image import MetadataImage
from raftka.metadata.records import LATER, NUMBERS, decode_batch, encode_batch
from raftka.versions import FORMATS, LEVELS, METADATA_RECORDS
from tests.kit.versions.golden_formats import FOLDER, SAMPLES, encoded_at, image_at
from tests.kit.versions.records import RECORDS


@pytest.mark.parametrize("level", [each.number for each in LEVELS])
def test_each_format_is_written_as_its_level_says(level: int) -> None:
    path = FOLDER / f"level-{level}.json"
    golden = json.loads(path.read_text(encoding="utf-8"))

    assert encoded_at(level) == golden, (
        f"bytes on disk have changed at level {level}: write them from a new level on, "
        "docs/versions.md says how"
    )


def test_each_format_has_samples() -> None:
    assert list(FORMATS) == sorted(SAMPLES, key=FORMATS.index)


def test_each_kind_of_record_has_a_sample_with_all_its_fields() -> None:
    assert {type(record) for record in RECORDS} == set(NUMBERS)
    for kind in NUMBERS:
        defaults = kind._field_defaults
        samples = [record for record in RECORDS if type(record) is kind]
        told = {
            name
            for record in samples
            for name, value in zip(kind._fields, record, strict=True)
            if name not in defaults or value != defaults[name]
        }
        assert told == set(kind._fields), kind.__name__


def test_a_version_of_a_record_after_the_first_release_names_its_level() -> None:
    """Level 1 has these versions, for ever: a higher one stands in LATER."""
    golden = json.loads((FOLDER / "level-1.json").read_text(encoding="utf-8"))
    first = {}
    for number, record in enumerate(RECORDS):
        name = f"{METADATA_RECORDS.name}: {type(record).__name__} {number}"
        if name in golden:
            _, read = decode_batch(bytes.fromhex(golden[name]))
            first[type(record)] = read[0]
    for kind, (_, newest) in NUMBERS.items():
        later = LATER.get(kind, ())
        assert [each.version for each in later] == sorted(each.version for each in later)
        if later:
            assert later[-1].version == newest
            assert all(each.level > 1 for each in later)
        else:
            assert kind in first, f"{kind.__name__} is new: its level stands in LATER"


def test_what_level_1_wrote_is_read() -> None:
    golden = json.loads((FOLDER / "level-1.json").read_text(encoding="utf-8"))
    image = MetadataImage.from_snapshot(bytes.fromhex(golden["the metadata snapshot: an image"]))

    assert image == image_at(1)


def test_records_of_this_release_are_read_as_they_were_written() -> None:
    for record in RECORDS:
        assert decode_batch(encode_batch([record], 7)) == (7, [record])
