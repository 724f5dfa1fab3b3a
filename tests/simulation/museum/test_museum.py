"""Each bug of the museum is found when it is brought back, by what found it; and it stays mended."""

import pytest

from raftka.chaos.zoo.catalogue import BUGS, SCENARIOS, planted
from raftka.chaos.zoo.hunt import directed, lived
from tests.simulation.museum.exhibits import EXHIBITS, Exhibit

each_exhibit = pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.bug)


@each_exhibit
def test_it_is_found_when_it_is_back(exhibit: Exhibit) -> None:
    assert exhibit.bug in BUGS

    if exhibit.found_by == "scenario":
        assert directed(exhibit.bug).found
    else:
        with planted(exhibit.bug):
            assert lived(exhibit.found_by, exhibit.seed)


@each_exhibit
def test_it_stays_mended(exhibit: Exhibit) -> None:
    if exhibit.found_by == "scenario":
        SCENARIOS[exhibit.bug]()
    else:
        assert lived(exhibit.found_by, exhibit.seed) == []
