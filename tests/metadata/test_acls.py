"""Decisions on ACLs that a level of metadata.version stands in front of."""

from random import Random

import pytest

from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.controller.acls import decide_create_acls
from raftka.metadata.controller.draft import Draft, Environment
from raftka.metadata.controller.topic_names import TopicNames
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import AclAdded, FeatureLevelSet
from raftka.metadata.security_commands import CreateAcls
from raftka.security.acls import ALLOW, ANYBODY, LITERAL, READ, TOPIC, Acl
from raftka.versions import METADATA_VERSION
from raftka.wire.errors import Code, KafkaError
from tests.scripts.controller.stage import PROPERTIES


def decide(level: int, host: str) -> list[object]:
    image, _ = MetadataImage().apply(1, [FeatureLevelSet(METADATA_VERSION, level)])
    settings = NodeSettings.from_properties(PROPERTIES)
    environment = Environment(
        settings, Random(1), 0, [], lambda topic: False, lambda image: [], None
    )
    draft = Draft(image, TopicNames(image), image.offset + 1, environment)
    acl = Acl(TOPIC, "t", LITERAL, ANYBODY, host, READ, ALLOW)
    records, _ = decide_create_acls(draft, CreateAcls((acl,)))
    return list(records)


def test_a_network_needs_its_level() -> None:
    with pytest.raises(KafkaError, match="CIDR-based ACL host patterns require") as refused:
        decide(31, "10.0.0.0/8")
    assert refused.value.code is Code.UNSUPPORTED_VERSION
    assert decide(31, "10.0.0.1")
    assert decide(32, "10.0.0.0/8") == [
        AclAdded(TOPIC, "t", LITERAL, ANYBODY, "10.0.0.0/8", READ, ALLOW)
    ]
