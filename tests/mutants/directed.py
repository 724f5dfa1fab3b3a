"""Scenarios: each is a simulation that leads to the one moment in which the planted bug of its name
shows. Without the bug it passes.

An AssertionError, or whatever else the simulation raises, says what was wrong.
"""

from collections.abc import Callable

Scenario = Callable[[], None]
SCENARIOS: dict[str, Scenario] = {}


def finds(scenario: Scenario) -> Scenario:
    SCENARIOS[scenario.__name__] = scenario
    return scenario
