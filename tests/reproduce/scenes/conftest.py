import pytest

from diverset.reproduce.scenes.sentences import with_s
from diverset.reproduce.scenes.vocabulary import COLOURS, COMPANIONS, KINDS


@pytest.fixture
def parse_caption():
    def parse(caption: str) -> tuple[str, str, str, bool]:
        """Kind, colour, companion and whether plural, from the words of a caption."""
        text = f" {caption[:-1].lower()} "
        kinds = {
            k.name for k in KINDS for n in k.nouns if f" {n} " in text or f" {with_s(n)} " in text
        }
        colours = {c for c, words in COLOURS.items() for w in words if f" {w} " in text}
        seconds = {c for c, words in COMPANIONS.items() for w in words if f" {w} " in text}
        assert len(kinds) == 1 and len(colours) == 1 and len(seconds) <= 1, caption
        plural = " two " in text or " a couple of " in text
        return kinds.pop(), colours.pop(), seconds.pop() if seconds else "", plural

    return parse
