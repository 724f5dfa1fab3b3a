"""The quota of a client: the first that exists in Kafka's order of eight levels, and the clients
that share it.

A quota of a user is shared by all client ids and connections of the user, a quota of a client id by
all its users; a default gives each its own budget. Pure.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from raftka.metadata.image import QuotaEntity
from raftka.metadata.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
# the quota's key; the user and the client id that share it, None: all users, all client ids
Counted = tuple[str, str | None, str | None]


class Bound(NamedTuple):
    """A quota that applies to a client."""

    counted: Counted
    value: float  # a second


class Applied(NamedTuple):
    """All quotas that apply to a client; None: no quota of that kind."""

    epoch: int  # of the quotas
    principal: str
    client_id: str | None
    produce: Bound | None
    fetch: Bound | None
    request: Bound | None
    mutations: Bound | None

    @property
    def limits_requests(self) -> bool:
        """Return whether produces and fetches of the client are counted."""
        return self.produce is not None or self.fetch is not None or self.request is not None


def applied(quotas: Quotas, epoch: int, principal: str, client_id: str | None) -> Applied:
    user, client = principal.partition(":")[2], client_id or ""
    levels = (
        (((CLIENT_ID, client), (USER, user)), user, client),
        (((CLIENT_ID, None), (USER, user)), user, client),
        (((USER, user),), user, None),
        (((CLIENT_ID, client), (USER, None)), user, client),
        (((CLIENT_ID, None), (USER, None)), user, client),
        (((USER, None),), user, None),
        (((CLIENT_ID, client),), None, client),
        (((CLIENT_ID, None),), None, client),
    )
    found = [
        (quotas[entity], of_user, of_client)
        for entity, of_user, of_client in levels
        if entity in quotas
    ]

    def bound(key: str) -> Bound | None:
        return next(
            (
                Bound((key, of_user, of_client), values[key])
                for values, of_user, of_client in found
                if key in values
            ),
            None,
        )

    keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
    return Applied(epoch, principal, client_id, *[bound(key) for key in keys])


def any_of_clients(quotas: Quotas) -> bool:
    return any(entity[-1][0] != IP for entity in quotas)


def rates_of_addresses(quotas: Quotas) -> dict[str | None, float]:
    """Connections a second by address, None for those without a rate of their own."""
    rates: dict[str | None, float] = {}
    for ((kind, name), *_), values in quotas.items():
        if kind == IP and CONNECTION_CREATION_RATE in values:
            rates[None if name is None else plain_address(name)] = values[CONNECTION_CREATION_RATE]
    return rates


def plain_address(text: str) -> str:
    """Return the one way to write an address by which addresses are compared."""
    try:
        address = ip_address(text)
    except ValueError:  # a simulated network has names
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)
