"""The two grammars of topics that a node makes when it starts."""

import pytest

from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.starting_topics import parse_starting_topics, translate_image_topics
from raftka.metadata.configs.values import SettingError


@pytest.mark.parametrize(
    ("item", "topic"),
    [
        ("orders", NewTopic("orders")),
        ("orders:3", NewTopic("orders", 3)),
        ("orders:compact", NewTopic("orders", configs=(("cleanup.policy", "compact"),))),
        ("payments:1:compact", NewTopic("payments", 1, configs=(("cleanup.policy", "compact"),))),
        (
            "p:1:compact+delete:retention.ms=1000",
            NewTopic(
                "p", 1, configs=(("cleanup.policy", "compact,delete"), ("retention.ms", "1000"))
            ),
        ),
        ("p:2:replication.factor=3", NewTopic("p", 2, 3)),
        ("p:segment.bytes=1048576", NewTopic("p", configs=(("segment.bytes", "1048576"),))),
        (" p : 1 ", NewTopic("p", 1)),
    ],
)
def test_an_item_is_a_topic(item: str, topic: NewTopic) -> None:
    assert parse_starting_topics([item]) == (topic,)


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([""], "the empty string is not allowed; a topic is NAME"),
        (["a/b:1"], "other than ASCII alphanumerics.*; a topic is NAME"),
        (["a:0"], "'a:0': the number of partitions must be a number from 1 .*, not '0'"),
        (["a:-1"], "must be a number"),
        (["a:²"], "must be a number"),
        (["a:1:delete:compact"], "'compact' is not SETTING=VALUE; a topic is NAME"),
        (["a:1:shrink"], "'a:1:shrink': Invalid value shrink for configuration cleanup.policy"),
        (["a:1:retention=1"], "topics have no setting retention"),
        (["a:1:retention.ms=soon"], "Invalid value soon for configuration retention.ms"),
        (["a:1:compact:cleanup.policy=delete"], "has cleanup.policy twice"),
        (["a:1:replication.factor=0"], "replication.factor must be a number from 1 to 32767"),
        (["a:1", "b", "a:2"], "topic a stands there twice"),
        (["a.b:1", "a_b:1"], "topic a_b collides with a.b"),
        (["a:10001"], "must be a number from 1 to 10000, not '10001'"),
    ],
)
def test_a_mistake_is_named(items: list[str], fault: str) -> None:
    with pytest.raises(SettingError, match=fault):
        parse_starting_topics(items)


@pytest.mark.parametrize(
    ("text", "separator", "value"),
    [
        ("a:1:3", ",", "a:1:replication.factor=3"),
        (
            "a:1:3,b:2:1:compact",
            ",",
            "a:1:replication.factor=3,b:2:compact:replication.factor=1",
        ),
        ("a:1:1\nb:1:1\n", "\n", "a:1:replication.factor=1,b:1:replication.factor=1"),
        ("a:1:1;b:1:1:compact,delete", ";", "a:1:replication.factor=1,b:1:compact+delete:"),
        ("", ",", ""),
    ],
)
def test_the_third_field_of_the_image_s_grammar_is_the_number_of_replicas(
    text: str, separator: str, value: str
) -> None:
    translated = translate_image_topics(text, separator)

    assert translated.startswith(value)
    parse_starting_topics(translated.split(",") if translated else [])


@pytest.mark.parametrize("text", ["a", "a:1", "a:1:1:compact:more", "a:1:retention.ms=1"])
def test_a_mistake_in_the_image_s_grammar_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is not NAME:PARTITIONS:REPLICAS"):
        translate_image_topics(text)
