"""Split a caption into tokens: words and punctuation.

The rules are those of the Penn Treebank that matter for English captions. Unlike NLTK's tokenizer,
with which published vocabularies were built, it keeps quotation marks, does not split "cannot" and
splits at a slash; those vocabularies do not contain such words. Punctuation is kept.
"""

import re
import unicodedata

_TOKEN = re.compile(
    r"""
      (?:[^\W\d_]\.){2,}                        # u.s., a.m.
    | \d+(?:[.,:]\d+)+(?!\w)                    # 3.5, 1,000, 10:30
    | \w[\w-]*?(?=n't\b)                        # the do of don't
    | n't\b
    | '(?:s|re|ve|ll|d|m)\b
    | \w+(?:-\w+|'(?!(?:s|re|ve|ll|d|m)\b)\w+)* # t-shirt, o'clock, but dog + 's
    | \.{2,} | -{2,}                            # an ellipsis or a dash is one token
    | \S
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[str]:
    """The tokens of a text in lower case, punctuation included.

    >>> tokenize("The dog's ball isn't red.")
    ['the', 'dog', "'s", 'ball', 'is', "n't", 'red', '.']
    >>> tokenize("A man in a T-shirt, at 10:30 (or 11 o'clock)...")
    ['a', 'man', 'in', 'a', 't-shirt', ',', 'at', '10:30', '(', 'or', '11', "o'clock", ')', '...']
    >>> tokenize("They can\u2019t; we\u2019ll")
    ['they', 'ca', "n't", ';', 'we', "'ll"]
    >>> tokenize("   ")
    []
    """
    # Composed letters, because a combining accent is not a word character to `re`.
    plain = unicodedata.normalize("NFC", text).replace("\u2019", "'").lower()
    return _TOKEN.findall(plain)
