"""pysyncobj as it comes does the harm of each scenario; ours does not."""

import logging
import random

import pytest

from tests.metadata.raft.bench import Harm
from tests.metadata.raft.hazards import SCENARIOS, play_ours, play_stock
from tests.metadata.raft.hazards_of_callers import PAIRS


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("pysyncobj").setLevel(logging.CRITICAL + 1)
    random.seed(7)  # pysyncobj's election timeouts


@pytest.mark.parametrize("name", SCENARIOS)
def test_stock_does_harm(name: str) -> None:
    with pytest.raises(Harm):
        play_stock(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_does_not(name: str) -> None:
    play_ours(name)


@pytest.mark.parametrize("name", PAIRS)
def test_stock_harms_its_callers(name: str) -> None:
    with pytest.raises(Harm):
        PAIRS[name][0]()


@pytest.mark.parametrize("name", PAIRS)
def test_ours_does_not_harm_its_callers(name: str) -> None:
    PAIRS[name][1]()
