"""Filters as people write them: `year >= 2020 and (place = 'Rome' or not night = true)`.

    <, <=, >, >=, =, !=         numbers, text by code point, true and false only by = and !=
    in ('a', 'b')               one of several values
    between 10 and 20           both ends included
    contains 'x'                text within text; upper and lower case differ
    startswith 'x'
    under '/photos'             a path in this folder or below it, or the folder itself
    and, or, not, ( )           `not` may also stand before in, between, contains, ...

Text is quoted, '' stands for a quote in it; dates such as 2020-07-04 need no quotes. The text of a
filter never reaches a database: it is parsed into a tree (`filter_language`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple, NoReturn

from diverset.errors import OptionError
from diverset.index.filter_language import (
    TEXT_OPERATORS,
    And,
    Compare,
    Filter,
    Not,
    Or,
    Value,
    has_surrogate,
)

SIGNS = ("=", "==", "!=", "<", "<=", ">", ">=")
WORDS = ("between", "under", *TEXT_OPERATORS)  # operators; elsewhere they are names of fields
MAX_LENGTH = 10_000  # characters
MAX_DEPTH = 50  # nested parentheses and "not"
MAX_DIGITS = 20  # of an integer with its sign; longer ones are read as floats
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<date>\d{4}-\d\d(?:-\d\d(?:T\d\d(?::\d\d){0,2})?)?)(?![\w.:-])"
    r"|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
    r"|(?P<sign>(?i:and|or|not|in|true|false)(?![A-Za-z0-9_])|<=|>=|!=|==|=|<|>|\(|\)|,)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<end>\Z))"
)


@lru_cache(maxsize=128)  # a search checks a filter, then applies it several times
def parse(text: str, max_comparisons: int = MAX_LENGTH) -> Filter:
    """Parse a filter.

    `max_comparisons` limits untrusted filters, since each comparison may visit every item. Every
    value inside the parentheses of `in` counts.

    >>> parse("year >= 2020 and not place in ('Rome', 'Oslo')")  # doctest: +NORMALIZE_WHITESPACE
    And(parts=(Compare(field='year', operator='>=', value=2020),
        Not(part=Or(parts=(Compare(field='place', operator='=', value='Rome'),
                           Compare(field='place', operator='=', value='Oslo'))))))
    """
    if len(text) > MAX_LENGTH:
        raise OptionError(f"the filter is {len(text)} characters long; {MAX_LENGTH} are allowed")
    if has_surrogate(text):
        raise OptionError(f"the filter {text[:40]!r} holds half a surrogate pair; remove it")
    return _Parser(text, max_comparisons).parse()


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _Parser:
    """Recursive descent over the tokens of a filter."""

    def __init__(self, text: str, max_comparisons: int) -> None:
        self.text, self.max_comparisons = text, max_comparisons
        self.tokens: list[_Token] = []
        self.next = self.depth = self.comparisons = end = 0
        while not self.tokens or self.tokens[-1].kind != "end":
            token = _TOKEN.match(text, end)
            if not token:
                self.fail(len(text) - len(text[end:].lstrip()))
            kind, end = str(token.lastgroup), token.end()
            value = token[kind].lower() if kind == "sign" else token[kind]
            self.tokens.append(_Token(kind, value, token.start(kind)))

    def fail(self, start: int) -> NoReturn:
        near = self.text[start : start + 20]
        raise OptionError(
            f"cannot parse the filter {self.text!r} "
            f"{f'at {near!r}' if near else '(it ends too early)'}; "
            "write for example: width >= 1000 and name contains 'beach'"
        )

    def parse(self) -> Filter:
        tree = self.disjunction()
        self.expect("end", "")
        return tree

    def accept(self, sign: str) -> bool:
        if self.tokens[self.next][:2] != ("sign", sign):
            return False
        self.next += 1
        return True

    def expect(self, kind: str, *texts: str) -> str:
        """The text of the next token, which must be of a kind, and one of `texts` if given."""
        token = self.tokens[self.next]
        if token.kind != kind or (texts and token.text not in texts):
            self.fail(token.start)
        self.next += 1
        return token.text

    def disjunction(self) -> Filter:
        return self.join("or", partial(self.join, "and", self.term, And), Or)

    def join(
        self, separator: str, part: Callable[[], Filter], kind: type[And] | type[Or]
    ) -> Filter:
        parts = [part()]
        while self.accept(separator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def term(self) -> Filter:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OptionError(f"the filter is nested more than {MAX_DEPTH} deep; simplify it")
        try:
            if self.accept("not"):
                return Not(self.term())
            if self.accept("("):
                inner = self.disjunction()
                self.expect("sign", ")")
                return inner
            return self.comparison()
        finally:
            self.depth -= 1

    def comparison(self) -> Filter:
        field = self.expect("word")
        if self.accept("not"):
            return Not(self.choices(field) if self.accept("in") else self.by_word(field))
        if self.accept("in"):
            return self.choices(field)
        if self.tokens[self.next].kind == "word":
            return self.by_word(field)
        sign = self.expect("sign", *SIGNS)
        if sign == "!=":
            return Not(self.compare(field, "="))
        return self.compare(field, "=" if sign == "==" else sign)

    def by_word(self, field: str) -> Filter:
        start = self.tokens[self.next].start
        word = self.expect("word").lower()
        if word not in WORDS:
            self.fail(start)
        if word == "between":
            low = self.compare(field, ">=")
            self.expect("sign", "and")
            return And((low, self.compare(field, "<=")))
        if word == "under":
            folder = str(self.compare(field, "=", str).value).rstrip("/")
            return Or((Compare(field, "=", folder), Compare(field, "startswith", f"{folder}/")))
        return self.compare(field, word, str)

    def choices(self, field: str) -> Filter:
        self.expect("sign", "(")
        values = self.join(",", partial(self.compare, field, "="), Or)
        self.expect("sign", ")")
        return values

    def compare(self, field: str, sign: str, type_: type | None = None) -> Compare:
        self.comparisons += 1
        if self.comparisons > self.max_comparisons:
            raise OptionError(
                f"the filter has more than {self.max_comparisons} conditions; use fewer"
            )
        start, value = self.tokens[self.next].start, self.value()
        if type_ is not None and not isinstance(value, type_):
            self.fail(start)  # text in quotes is missing
        return Compare(field, sign, value)

    def value(self) -> Value:
        kind, text, _ = self.tokens[self.next]
        if kind not in ("text", "date", "number"):
            return self.expect("sign", "true", "false") == "true"
        self.next += 1
        if kind == "text":
            return text[1:-1].replace(text[0] * 2, text[0])
        if kind == "date":
            return text
        integer = not re.search(r"[.eE]", text) and len(text) <= MAX_DIGITS
        return int(text) if integer and abs(int(text)) < 2**63 else float(text)
