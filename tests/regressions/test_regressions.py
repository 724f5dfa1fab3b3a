"""Each bug of the regressions is found when it is brought back, by what found it; and it stays
mended.
"""

import pytest

from tests.mutants.catalogue import MUTANTS, SCENARIOS, mutated
from tests.mutants.hunt import directed, lived
from tests.regressions.known import REGRESSIONS, Regression

each_regression = pytest.mark.parametrize(
    "regression", REGRESSIONS, ids=lambda regression: regression.bug
)


@each_regression
def test_it_is_found_when_it_is_back(regression: Regression) -> None:
    assert regression.bug in MUTANTS

    if regression.found_by == "scenario":
        assert directed(regression.bug).found
    else:
        with mutated(regression.bug):
            assert lived(regression.found_by, regression.seed)


@each_regression
def test_it_stays_mended(regression: Regression) -> None:
    if regression.found_by == "scenario":
        SCENARIOS[regression.bug]()
    else:
        assert lived(regression.found_by, regression.seed) == []
