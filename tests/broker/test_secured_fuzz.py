"""Some frames of strangers and of a user without rights; `python -m tests.broker.fuzz --secured`
sends more.
"""

import pytest

from raftka.limits import PARTITIONS, TOPICS
from raftka.wire.schema import AnyApi
from tests.broker import secured_fuzz
from tests.broker.conftest import Lower

OF_STRANGERS, OF_NOBODY = 24, 40


@pytest.mark.parametrize("api", secured_fuzz.apis(), ids=lambda api: api.name)
def test_strangers_are_answered_nothing_but_their_login(api: AnyApi) -> None:
    secured_fuzz.strangers(api, OF_STRANGERS, 7)


@pytest.mark.parametrize("api", secured_fuzz.apis(), ids=lambda api: api.name)
def test_nothing_is_told_to_a_user_without_rights(api: AnyApi, lowered: Lower) -> None:
    lowered(TOPICS, 60)
    lowered(PARTITIONS, 200)
    secured_fuzz.users(api, OF_NOBODY, 7)


@pytest.mark.parametrize(
    "name", ["Metadata", "Fetch", "OffsetFetch", "ListGroups", "ListTransactions"]
)
def test_what_was_planted_is_found_by_the_administrator(name: str, lowered: Lower) -> None:
    lowered(TOPICS, 60)
    lowered(PARTITIONS, 200)
    (api,) = [api for api in secured_fuzz.apis() if api.name == name]

    with pytest.raises(AssertionError, match="is told"):
        secured_fuzz.users(api, 400, 7, user="node")
