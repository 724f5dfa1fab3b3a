"""The index decides as a plain search through all ACLs does."""

from hypothesis import given
from hypothesis import strategies as st

from raftka.security import acls
from raftka.security.acls import IMPLIED_BY, Acl, AclFilter, AclIndex

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "#c", " ", "ü"])
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*"])
INSIDE = ("*", "1.1.1.1", "1.1.0.0/16", "1.1.1.9/8", "0.0.0.0/0")
HOSTS = st.sampled_from([*INSIDE, "1.1.1.2", "2.0.0.0/8", "1.1.1.2/32", "::/0"])
OPERATIONS = st.sampled_from(
    [acls.ALL, acls.READ, acls.WRITE, acls.DESCRIBE, acls.ALTER_CONFIGS, acls.DESCRIBE_CONFIGS]
)
TYPES = st.sampled_from([acls.TOPIC, acls.GROUP])
ACLS = st.builds(
    Acl,
    TYPES,
    NAMES,
    st.sampled_from([acls.LITERAL, acls.PREFIXED]),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([acls.DENY, acls.ALLOW]),
)


def reaches(acl: Acl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    return acl.name in (name, "*") if acl.pattern == acls.LITERAL else name.startswith(acl.name)


def plain(
    found: list[Acl], principal: str, operation: int, resource_type: int, name: str
) -> bool | None:
    reaching = [acl for acl in found if reaches(acl, resource_type, name)]
    if not reaching:
        return None
    mine = [
        acl for acl in reaching if acl.principal in (principal, "User:*") and acl.host in INSIDE
    ]
    if any(acl.permission == acls.DENY and acl.operation in (operation, acls.ALL) for acl in mine):
        return False
    allowing = {operation, acls.ALL, *IMPLIED_BY.get(operation, ())}
    return any(acl.permission == acls.ALLOW and acl.operation in allowing for acl in mine)


@given(
    st.lists(ACLS, max_size=12), st.lists(ACLS, max_size=6), PRINCIPALS, OPERATIONS, TYPES, NAMES
)
def test_index_decides_as_a_search_through_all(
    kept: list[Acl], gone: list[Acl], principal: str, operation: int, kind: int, name: str
) -> None:
    index = AclIndex(kept)
    for acl in gone:
        index.add(acl)
    for acl in dict.fromkeys(gone):
        if acl not in kept:
            index.remove(acl)
    index.remove(Acl(acls.TOPIC, "never", acls.PREFIXED, "User:a", "*", acls.READ, acls.ALLOW))
    assert index.decide(principal, "1.1.1.1", operation, kind, name) == plain(
        kept, principal, operation, kind, name
    )


@given(st.lists(ACLS, max_size=8), PRINCIPALS)
def test_some_topic_is_found_if_any_name_would_do(found: list[Acl], principal: str) -> None:
    index = AclIndex(found)
    names = (
        {acl.name for acl in found}
        | {acl.name + end for acl in found for end in ("", "~", "a", "b", "c", "bc")}
        | {"~"}
    )
    expected = any(plain(found, principal, acls.WRITE, acls.TOPIC, name) is True for name in names)
    assert index.decide_any(principal, "1.1.1.1", acls.WRITE, acls.TOPIC) == expected


@given(st.lists(ACLS, max_size=12), ACLS)
def test_exact_filter_finds_what_a_search_finds(found: list[Acl], acl: Acl) -> None:
    exact = AclFilter(*acl)
    assert exact.exact == acl
    assert exact.found_in(dict.fromkeys(found).keys()) == [
        each for each in dict.fromkeys(found) if exact.matches(each)
    ]
