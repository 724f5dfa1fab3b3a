"""Names of certificates as Java's X500Principal writes them, and the rules that make users of
them.
"""

import pytest
from cryptography.x509 import Name, NameAttribute, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from raftka.security.distinguished_names import apply_rules, parse_rules, render_name, rules_fault


def name(*parts: tuple[ObjectIdentifier, str]) -> Name:
    return Name([NameAttribute(kind, value) for kind, value in parts])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (name((NameOID.COMMON_NAME, "alice")), "CN=alice"),
        (
            name(
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.ORGANIZATION_NAME, 'A, B + "C"'),
                (NameOID.COMMON_NAME, "mail ü"),
            ),
            'CN=mail ü,O=A\\, B \\+ \\"C\\",C=DE',
        ),
        (
            name((NameOID.ORGANIZATION_NAME, "x,CN=boss,O=Org"), (NameOID.COMMON_NAME, "trick")),
            "CN=trick,O=x\\,CN\\=boss\\,O\\=Org",
        ),
        (name((NameOID.COMMON_NAME, " #two  blanks  ")), "CN=\\ \\#two  blanks\\ \\ "),
        (name((NameOID.COMMON_NAME, "<a;b>\\")), "CN=\\<a\\;b\\>\\\\"),
        (
            name(
                (NameOID.USER_ID, "u"),
                (NameOID.DOMAIN_COMPONENT, "com"),
                (NameOID.STREET_ADDRESS, "s"),
                (NameOID.LOCALITY_NAME, "l"),
            ),
            "L=l,STREET=s,DC=com,UID=u",
        ),
        (
            Name([NameAttribute(NameOID.EMAIL_ADDRESS, "m@x.test", _ASN1Type.IA5String)]),
            "1.2.840.113549.1.9.1=#16086d40782e74657374",
        ),
        (Name([NameAttribute(NameOID.COMMON_NAME, "é", _ASN1Type.BMPString)]), "CN=é"),
        (
            Name(
                [
                    RelativeDistinguishedName(
                        [
                            NameAttribute(NameOID.COMMON_NAME, "a"),
                            NameAttribute(NameOID.ORGANIZATION_NAME, "b"),
                        ]
                    )
                ]
            ),
            "CN=a+O=b",
        ),
    ],
)
def test_a_name_as_java_writes_it(given: Name, expected: str) -> None:
    assert render_name(given.public_bytes()) == expected


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka,OU=ServiceUsers,O=Org", "kafka"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2@$3/L", "CN=Ka,OU=Sv,O=Org", "ka@sv@org"),
        ("RULE:^.*CN=([^,]+).*$/$1/U, DEFAULT", "CN=kafka", "KAFKA"),
        ("RULE:^CN=x$/y/,DEFAULT", "CN=z", "CN=z"),
        ("RULE:^CN=x$/y/", "CN=z", None),
        ("RULE:CN=a\\/b/c\\/d/", "CN=a/b", "c/d"),
        ("RULE:CN=([^,\\\\]+),O=Org/$1/", "CN=boss,O=Org", "boss"),
        ("RULE:CN=([^,\\\\]+),O=Org/$1/", "CN=trick,O=x\\,CN\\=boss\\,O\\=Org", None),
        ("RULE:CN=boss/$0/", "CN=boss,O=Org", None),  # the whole name, not a part of it
    ],
)
def test_the_first_rule_that_the_whole_name_matches_makes_the_user(
    rules: str, given: str, expected: str | None
) -> None:
    assert apply_rules(parse_rules(rules), given) == expected


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "default",
        "RULE:a/b",
        "RULE:(/b/",
        "RULE:a/$1/",
        "RULE:a/b/X",
        "DEFAULT DEFAULT",
        "DEFAULT,",
        "RULE:a/b/,",
    ],
)
def test_rules_that_are_none_are_refused(rules: str) -> None:
    assert "ssl.principal.mapping.rules" in (rules_fault(rules) or "")
