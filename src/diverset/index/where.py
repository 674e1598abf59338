"""Filters over metadata: `year >= 2020 and (place = 'Rome' or not night = true)`.

A filter is read into a small tree, which every store translates into its own language with bound
parameters; the text itself never reaches a database. `matches` is what a filter means: a
comparison with a field that is missing, null or of another kind is false; `!=` is the negation of
`=`; text compares by code point, true and false only by `=` and `!=`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from diverset.errors import InputError, OptionError

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
Value = str | int | float | bool
LONGEST = 10_000  # characters; nobody writes more by hand
DEEPEST = 50  # parentheses and "not" inside each other
MOST_DIGITS = 20  # of a whole number with its sign; longer ones are read as floats
FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign><=|>=|!=|==|=|<|>|\(|\)|,))"
)
_KEYWORDS = ("and", "or", "not", "in", "true", "false")


@dataclass(frozen=True)
class Compare:
    """`field sign value`, with a sign of `COMPARISONS` other than `!=`, which is read as a Not."""

    field: str
    sign: str
    value: Value


@dataclass(frozen=True)
class And:
    parts: tuple[Where, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Where, ...]


@dataclass(frozen=True)
class Not:
    part: Where


Where = Compare | And | Or | Not


def parse(text: str, most: int = LONGEST) -> Where:
    """Read a filter.

    Args:
        text: of the filter.
        most: comparisons in it, for filters of strangers: each takes a look at every item. A value
            in the parentheses of `in` is one.

    >>> parse("year >= 2020 and not place in ('Rome', 'Oslo')")  # doctest: +NORMALIZE_WHITESPACE
    And(parts=(Compare(field='year', sign='>=', value=2020),
        Not(part=Or(parts=(Compare(field='place', sign='=', value='Rome'),
                           Compare(field='place', sign='=', value='Oslo'))))))
    """
    if len(text) > LONGEST:
        raise OptionError(f"the filter is {len(text)} characters long; {LONGEST} are allowed")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise OptionError(f"the filter {text[:40]!r} holds half a surrogate pair; remove it")
    return _Reader(text, most).whole()


def matches(where: Where, metadata: Mapping[str, object]) -> bool:
    """What a filter means, for one item.

    >>> matches(parse("year > 2000"), {"year": 2020}), matches(parse("year > 2000"), {})
    (True, False)
    """
    match where:
        case And(parts):
            return all(matches(part, metadata) for part in parts)
        case Or(parts):
            return any(matches(part, metadata) for part in parts)
        case Not(part):
            return not matches(part, metadata)
        case Compare(field, sign, value):
            return _compares(metadata.get(field), sign, value)


def comparisons(where: Where) -> Iterator[Compare]:
    """All that a filter compares.

    >>> [one.field for one in comparisons(parse("year > 2000 and not (place = 'Rome')"))]
    ['year', 'place']
    """
    match where:
        case And(parts) | Or(parts):
            for part in parts:
                yield from comparisons(part)
        case Not(part):
            yield from comparisons(part)
        case Compare():
            yield where


def kind(value: object) -> str:
    """What a value can be compared with: "truth", "number", "text" or "none".

    >>> kind(True), kind(2), kind(None)
    ('truth', 'number', 'none')
    """
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "none"


def check_metadata(metadata: Mapping[str, object]) -> None:
    """Raise unless every field has a plain name and a scalar that JSON can hold."""
    for name, value in metadata.items():
        if not isinstance(name, str) or not FIELD.match(name):
            raise InputError(
                f"metadata field {name!r} is not a plain name; use letters, digits and underscores"
            )
        if value is not None and kind(value) == "none":
            raise InputError(
                f"metadata field {name!r} holds {type(value).__name__}; "
                "give text, a number, true, false or null"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"metadata field {name!r} is {value}; give a finite number")
        if kind(value) == "number" and isinstance(value, int) and abs(value) >= 2**63:
            raise InputError(f"metadata field {name!r} is {value}; give it as text, or as a float")
        if isinstance(value, str):
            check_text(f"metadata field {name!r}", value)


def check_text(name: str, value: str) -> None:
    """Raise where text is not what every database can hold."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputError(
            f"{name} is {value[:40]!r}, with a NUL or half a surrogate pair; remove it"
        )


def _compares(found: object, sign: str, value: Value) -> bool:
    if kind(found) != kind(value) or (kind(value) == "truth" and sign != "="):
        return False
    match sign:
        case "=":
            return found == value
        case "<":
            return found < value  # type: ignore[operator]
        case "<=":
            return found <= value  # type: ignore[operator]
        case ">":
            return found > value  # type: ignore[operator]
        case _:
            return found >= value  # type: ignore[operator]


class _Reader:
    """Recursive descent over the tokens of one filter."""

    def __init__(self, text: str, most: int) -> None:
        self.text, self.most = text, most
        self.tokens: list[tuple[str, str, int]] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if not found:
                self.fail(place + len(text[place:]) - len(text[place:].lstrip()))
            kind_ = str(found.lastgroup)
            self.tokens.append((kind_, found.group(kind_), found.start(kind_)))
            place = found.end()
        self.next = 0
        self.depth = 0
        self.compared = 0

    def fail(self, place: int) -> NoReturn:
        near = self.text[place : place + 20]
        raise OptionError(
            f"the filter {self.text!r} cannot be read {f'at {near!r}' if near else 'to its end'}; "
            "write for example: year >= 2020 and place = 'Rome'"
        )

    def whole(self) -> Where:
        result = self.either()
        if self.next < len(self.tokens):
            self.fail(self.tokens[self.next][2])
        return result

    def peek(self) -> str:
        """The next sign or keyword; empty at the end and before anything else."""
        if self.next == len(self.tokens):
            return ""
        kind_, text, _ = self.tokens[self.next]
        if kind_ == "sign":
            return text
        return text.lower() if kind_ == "word" and text.lower() in _KEYWORDS else ""

    def take(self, *wanted: str) -> bool:
        if self.peek() in wanted:
            self.next += 1
            return True
        return False

    def token(self) -> tuple[str, str, int]:
        if self.next == len(self.tokens):
            self.fail(len(self.text))
        self.next += 1
        return self.tokens[self.next - 1]

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            self.fail(self.token()[2])

    def either(self) -> Where:
        parts = [self.both()]
        while self.take("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def both(self) -> Where:
        parts = [self.single()]
        while self.take("and"):
            parts.append(self.single())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def single(self) -> Where:
        self.depth += 1
        if self.depth > DEEPEST:
            raise OptionError(f"the filter is nested more than {DEEPEST} deep; simplify it")
        try:
            if self.take("not"):
                return Not(self.single())
            if self.take("("):
                inside = self.either()
                self.expect(")")
                return inside
            return self.comparison()
        finally:
            self.depth -= 1

    def comparison(self) -> Where:
        kind_, field, place = self.token()
        if kind_ != "word" or field.lower() in _KEYWORDS:
            self.fail(place)
        if self.take("in"):
            return self.choices(field)
        if self.take("not"):
            if not self.take("in"):
                self.fail(self.token()[2])
            return Not(self.choices(field))
        _, sign, place = self.token()
        sign = "=" if sign == "==" else sign
        if sign not in COMPARISONS:
            self.fail(place)
        if sign == "!=":
            return Not(self.compare(field, "="))
        return self.compare(field, sign)

    def choices(self, field: str) -> Where:
        self.expect("(")
        found: list[Where] = [self.compare(field, "=")]
        while self.take(","):
            found.append(self.compare(field, "="))
        self.expect(")")
        return found[0] if len(found) == 1 else Or(tuple(found))

    def compare(self, field: str, sign: str) -> Compare:
        self.compared += 1
        if self.compared > self.most:
            raise OptionError(f"the filter has more than {self.most} conditions; use fewer")
        return Compare(field, sign, self.value())

    def value(self) -> Value:
        kind_, text, place = self.token()
        if kind_ == "text":
            return text[1:-1].replace(text[0] * 2, text[0])
        if kind_ == "number":
            whole = not re.search(r"[.eE]", text) and len(text) <= MOST_DIGITS
            return int(text) if whole and abs(int(text)) < 2**63 else float(text)
        if kind_ == "word" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        self.fail(place)
