"""Captions: English sentences that describe one situation each, with synonyms.

A caption is made from the situation alone, so it contains nothing that is not in the image.
"""

from random import Random

from diverset.reproduce.scenes.scene import Situation
from diverset.reproduce.scenes.vocabulary import COLOURS, COMPANIONS, KIND

PREPOSITIONS = {
    "beside": ("beside", "next to", "near", "by"),
    "under": ("under", "below", "beneath"),
    "on": ("on", "on top of", "atop"),
    "over": ("over", "above"),
}
"""Ways to say where the actor is, seen from its companion."""

REVERSED = {
    "beside": ("next to", "beside"),
    "under": ("above", "over"),
    "on": ("under", "beneath"),
    "over": ("below", "under"),
}
"""Ways to say where the companion is, seen from the actor."""

VERBS = {
    ("ground", "beside"): ("sit", "wait", "rest"),
    ("ground", "under"): ("sit", "rest", "hide"),
    ("ground", "on"): ("sit", "stand", "balance"),
    ("ground", "carry"): ("carry", "bring", "hold"),
    ("air", "under"): ("fly", "hover", "float"),
    ("air", "over"): ("fly", "hover", "float"),
    ("air", "carry"): ("carry", "lift", "transport"),
    ("water", "beside"): ("float", "drift", "wait"),
    ("water", "under"): ("float", "drift", "wait"),
    ("water", "carry"): ("carry", "bring", "transport"),
    ("wheels", "beside"): ("wait", "stop", "stand"),
    ("wheels", "under"): ("wait", "stop", "stand"),
    ("wheels", "on"): ("balance", "stand"),
    ("wheels", "carry"): ("carry", "bring", "transport"),
    ("still", "beside"): ("stand",),
    ("still", "under"): ("stand",),
    ("still", "on"): ("stand", "balance"),
}
"""Verbs of a relation, by the actor's habitat."""

ALONE_VERBS = {
    "sleep": (("sleep", ""), ("doze", ""), ("sleep", "peacefully"), ("nap", "")),
    "sing": (("sing", ""), ("sing", "a song"), ("hum", "a tune"), ("sing", "happily")),
    "jump": (("jump", ""), ("leap", "into the air"), ("jump", "high"), ("hop", "")),
    "race": (("race", "along"), ("rush", "by"), ("dash", "past"), ("hurry", "along")),
    "shine": (("shine", ""), ("glow", ""), ("shine", "brightly"), ("sparkle", "")),
}
"""Verbs of the actions without a companion, with what follows them."""

SIZES = {"small": ("small", "little", "tiny"), "large": ("", "", "big", "large")}
"""Adjectives of a size. The usual one often goes unmentioned."""

PLACED_TEMPLATES: tuple[str, ...] = (
    "{a} {verb} {prep} {c}",
    "{a} {be} {ing} {prep} {c}",
    "there {be} {some} {ing} {prep} {c}",
    "{some} {ing} {prep} {c}",
    "{prep} {c} {verb} {some}",
    "{c} is {back} {some}",
)
CARRY_TEMPLATES: tuple[str, ...] = (
    "{a} {verb} {c}",
    "{a} {be} {ing} {c}",
    "there {be} {some} {ing} {c}",
    "{some} {ing} {c}",
    "{c} is carried by {a}",
    "{c} is being carried by {a}",
)
ALONE_TEMPLATES: tuple[str, ...] = (
    "{a} {verb}{rest}",
    "{a} {be} {ing}{rest}",
    "there {be} {some} {ing}{rest}",
    "{some} {ing}{rest}",
    "somewhere {a} {verb}{rest}",
)

_DOUBLED = frozenset({"sit", "stop", "nap", "hop", "hum"})


def describe(situation: Situation, rng: Random) -> str:
    """Describe a situation in one sentence.

    >>> describe(Situation("cat", "orange", "under", "umbrella"), Random(3))
    'Under an umbrella rests a big orange cat.'
    """
    plural = situation.count > 1
    slots = {"be": "are" if plural else "is"}
    slots["some"] = _actor(situation, rng, definite=False, behind=False)
    slots["a"] = _actor(situation, rng, definite=rng.random() < 0.3, behind=rng.random() < 0.2)
    if situation.companion:
        verb = rng.choice(VERBS[KIND[situation.kind].habitat, situation.action])
        slots["c"] = article(rng.choice(COMPANIONS[situation.companion]))
        templates = CARRY_TEMPLATES if situation.action == "carry" else PLACED_TEMPLATES
        slots["prep"] = rng.choice(PREPOSITIONS.get(situation.action, ("",)))
        slots["back"] = rng.choice(REVERSED.get(situation.action, ("",)))
    else:
        verb, rest = rng.choice(ALONE_VERBS[situation.action])
        slots["rest"] = f" {rest}" if rest else ""
        templates = ALONE_TEMPLATES
    slots["verb"] = verb if plural else with_s(verb)
    slots["ing"] = participle(verb)
    sentence = rng.choice(templates).format_map(slots)
    return sentence[0].upper() + sentence[1:] + "."


def article(words: str) -> str:
    """Put "a" or "an" in front.

    >>> article("orange cat"), article("red umbrella")
    ('an orange cat', 'a red umbrella')
    """
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def with_s(word: str) -> str:
    """The form of a verb for "it", or the plural of a noun.

    >>> [with_s(word) for word in ("sit", "rush", "carry", "bunny", "fish")]
    ['sits', 'rushes', 'carries', 'bunnies', 'fish']
    """
    if word == "fish":
        return word
    if word.endswith(("s", "sh", "ch", "x")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def participle(verb: str) -> str:
    """The form in "-ing".

    >>> [participle(verb) for verb in ("sit", "race", "fly")]
    ['sitting', 'racing', 'flying']
    """
    if verb in _DOUBLED:
        return verb + verb[-1] + "ing"
    return (verb[:-1] if verb.endswith("e") else verb) + "ing"


def _actor(situation: Situation, rng: Random, definite: bool, behind: bool) -> str:
    """The actor with its adjectives, in front of the noun or `behind` it."""
    plural = situation.count > 1
    noun = rng.choice(KIND[situation.kind].nouns)
    noun = with_s(noun) if plural else noun
    colour = rng.choice(COLOURS[situation.colour])
    size = "" if plural else rng.choice(SIZES[situation.size])
    be = "are" if plural else "is"
    if behind and size and rng.random() < 0.5:
        words, tail = noun, f" that {be} {size} and {colour}"
    elif behind:
        words, tail = f"{size} {noun}".strip(), f" that {be} {colour}"
    else:
        words, tail = f"{size} {colour} {noun}".strip(), ""
    if plural:
        start = "the two" if definite else rng.choice(("two", "two", "a couple of"))
        return f"{start} {words}{tail}"
    return (f"the {words}" if definite else article(words)) + tail
