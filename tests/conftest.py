"""Options of the whole test run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what came out into the scenario scripts; look at the diff before you commit it")
    parser.addoption(
        "--all-clients", action="store_true", help="fetch the real clients that are not here yet: kcat, Kafka's own tools, franz-go, ..."
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
