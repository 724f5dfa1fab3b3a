"""Names of users from Kerberos principals: Kafka's rules, and what a pattern may cost."""

import pytest

from raftka.limits import PRINCIPAL_LENGTH, LimitExceeded
from raftka.security.kerberos.local_names import local_name, local_rules_fault, parse_local_rules


def named(principal: str, *rules: str) -> str | None:
    return local_name(parse_local_rules(rules), "HOME", principal)


@pytest.mark.parametrize(
    ("principal", "rule", "name"),
    [
        ("alice@HOME", "DEFAULT", "alice"),
        ("web/host@HOME", "DEFAULT", "web"),
        ("alice@ABROAD", "DEFAULT", None),
        ("alice@home", "DEFAULT", None),
        ("alice@ABROAD", "RULE:[1:$1]", "alice"),
        ("alice@ABROAD", "RULE:[2:$1]", None),
        ("web/host@ABROAD", "RULE:[1:$1]", None),
        ("web/host@ABROAD", "RULE:[2:$2.$1.$0]", "host.web.ABROAD"),
        ("app-web@HOME", r"RULE:[1:$1](app-.*)s/app-(.*)/$1/", "web"),
        ("xapp-web@HOME", r"RULE:[1:$1](app-.*)s/app-(.*)/$1/", None),
        ("alice@HOME", r"RULE:[1:$1@$0](.*@HOME)s/@.*//", "alice"),
        ("alice@NOTHOME", r"RULE:[1:$1@$0](.*@HOME)s/@.*//", None),
        ("alice@HOME.EVIL", r"RULE:[1:$1@$0](.*@HOME)s/@.*//", None),
        ("alice@HOME", r"RULE:[1:$1@$0](.*@HOME)", None),
        ("a-b-c@HOME", "RULE:[1:$1]s/-/_/", "a_b-c"),
        ("a-b-c@HOME", "RULE:[1:$1]s/-/_/g", "a_b_c"),
        ("a-b-c@HOME", "RULE:[1:$1]s/(.)-/$1$1/g", "aabbc"),
        ("aLice@HOME", "RULE:[1:$1]/L", "alice"),
        ("aLice@HOME", "RULE:[1:$1]U", "ALICE"),
        ("App.Web@HOME", r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g/L", "web"),
        ("App.Web@HOME", r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/U", "WEB"),
        ("alice@HOME", "RULE:[1:user]", "user"),
        ("alice@HOME", "RULE:[1:$1]s/.*//", None),
        ("alice@HOME", r"RULE:[1:$1]s/i/@/", None),
        ("al$1ice@HOME", "RULE:[1:$1]", "al$1ice"),
        ("*@HOME", "DEFAULT", "*"),
    ],
)
def test_rule_makes_a_name_or_none(principal: str, rule: str, name: str | None) -> None:
    assert named(principal, rule) == name


def test_first_rule_that_fits_decides() -> None:
    rules = ("RULE:[1:$1](admin)s/admin/root/", "RULE:[1:$1](a.*)/U", "DEFAULT")
    assert [named(f"{each}@HOME", *rules) for each in ("admin", "alice", "bob")] == [
        "root",
        "ALICE",
        "bob",
    ]
    assert named("alice@HOME", "RULE:[1:$1](a.*)s/.*//", "DEFAULT") is None, (
        "a rule that makes no name lets no other one try"
    )
    assert named("alice@HOME") is None


@pytest.mark.parametrize(
    "principal",
    [
        "",
        "alice",
        "@HOME",
        "alice@",
        "alice@HOME@HOME",
        "a/b/c@HOME",
        "/b@HOME",
        "a/@HOME",
        r"a\@b@HOME",
        "a b@HOME",
    ],
)
def test_what_is_no_principal_of_one_or_two_components_has_no_name(principal: str) -> None:
    assert named(principal, "RULE:[1:$1]", "RULE:[2:$1]", "DEFAULT") is None


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("", "is not RULE"),
        ("default", "is not RULE"),
        ("RULE:[1:$1", "is not RULE"),
        ("RULE:[0:$0]", "is not RULE"),
        ("RULE:[3:$1]", "is not RULE"),
        ("RULE:[1:]", "is not RULE"),
        ("RULE:[1:$1]s/a/b", "is not RULE"),
        ("RULE:[1:$1]/X", "is not RULE"),
        ("RULE:[1:$1]/L garbage", "is not RULE"),
        ("RULE:[1:$2]", r"has \$2: there are \$0 to \$1"),
        ("RULE:[1:$]", r"has \$: there"),
        ("RULE:[1:$1]s/(a)/$2/", r"has \$2: there are \$0 to \$1"),
        ("RULE:[1:$1]([a-)", "is not one"),
        ("RULE:[1:$1]s/(a//", "is not one"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_place(rule: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_local_rules(["DEFAULT", rule])
    assert local_rules_fault((rule,)) is not None


@pytest.mark.parametrize(
    "rule",
    [
        "RULE:[1:$1]s/(a+)+$//",
        "RULE:[1:$1]s/(a|b)*x//",
        "RULE:[1:$1]s/(a){9}//",
        "RULE:[1:$1](.*.*.*.*)",
        "RULE:[1:$1]s/.*.*.*x//",
    ],
)
def test_pattern_whose_time_could_grow_without_bounds_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="could take too long"):
        parse_local_rules([rule])


def test_backslash_takes_the_meaning_of_a_repeat() -> None:
    assert named("a*b+c*d@HOME", r"RULE:[1:$1](a\*b\+c\*.*)s/\*|\+//g") == "abcd"


def test_long_principal_is_refused_before_any_pattern() -> None:
    longest = "a" * (PRINCIPAL_LENGTH.value - 5)
    assert named(f"{longest}@HOME", "RULE:[1:$1](.*.*.*x)", "RULE:[1:$1]s/.*.*x//g") == longest
    with pytest.raises(LimitExceeded):
        named(f"{longest}a@HOME", "DEFAULT")
