"""A copy of a dataclass with other values is what dataclasses.replace makes."""

from dataclasses import dataclass, fields, replace

import pytest

from raftka.metadata.image import MetadataImage, replaced


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 2


@pytest.mark.parametrize("name", [each.name for each in fields(MetadataImage)])
def test_each_field_of_an_image_is_replaced_alone(name: str) -> None:
    before = MetadataImage(**{each.name: object() for each in fields(MetadataImage)})  # type: ignore[arg-type]
    value = object()

    after = replaced(before, {name: value})

    assert after == replace(before, **{name: value})  # type: ignore[arg-type]
    assert getattr(after, name) is value
    assert getattr(before, name) is not value


def test_classes_are_told_apart() -> None:
    assert replaced(Pair(1), {"right": 3}) == Pair(1, 3)
    assert replaced(MetadataImage(), {"offset": 3}).offset == 3


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(KeyError):
        replaced(Pair(1), {"middle": 3})
