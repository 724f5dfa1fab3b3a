"""Every script under tests/scripts: what comes out must read as the script says. `pytest --rewrite`
writes what came out.
"""

import pytest

from tests.scenario import Script, Words, parse, scripts


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_script(script: Script, rewrite: bool) -> None:
    actual = script.play()
    if rewrite:
        script.path.write_text(actual)
    else:
        assert actual == script.path.read_text()


class Echo:
    def do(self, verb: str, words: Words) -> list[str]:
        return [] if verb == "quiet" else [f"{verb} {words.get('x')}"]


def test_a_block_is_played_as_written_and_keeps_its_comments() -> None:
    blocks = parse("# title\n\nsay x=1  # why\nquiet\n----\nsay 2\n\nquiet\n")

    played = [str(block.play(Echo())) for block in blocks]

    assert played == ["# title", "say x=1  # why\nquiet\n----\nsay 1", "quiet\n----\nok"]


def test_a_word_that_no_stage_reads_is_a_mistake_in_the_script() -> None:
    with pytest.raises(ValueError, match="say does not know y"):
        parse("say x=1 y=2\n----\nsay 1")[0].play(Echo())
