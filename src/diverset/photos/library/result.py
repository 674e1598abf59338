"""The result of indexing folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_KINDS = 8  # of ignored files that are listed


@dataclass
class IndexingResult:
    """What a run did.

    `skipped` maps paths to reasons, `ignored` counts other files by kind, `repaired` says what was
    repaired first.
    """

    total: int = 0
    unchanged: int = 0
    encoded: int = 0
    reused: int = 0
    removed: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    repaired: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.total:,} files", f"{self.encoded:,} encoded"]
        for count, name in (
            (self.reused, "moved or copied"),
            (self.removed, "removed"),
            (self.unchanged, "unchanged"),
            (len(self.skipped), "skipped"),
        ):
            if count:
                parts.append(f"{count:,} {name}")
        rate = f", {self.encoded / self.seconds:.1f}/s" if self.encoded and self.seconds else ""
        return ", ".join(parts) + f" in {self.seconds:.1f} s{rate}"


def describe_ignored(ignored: Mapping[str, int]) -> str:
    """Numbers of ignored files by kind, the most frequent first.

    >>> describe_ignored({".svg": 1, ".mov": 3})
    '4 files that are not images: 3 .mov, 1 .svg'
    """
    kinds = sorted(ignored.items(), key=lambda kind: (-kind[1], kind[0]))
    parts = [f"{count:,} {name}" for name, count in kinds[:MAX_KINDS]]
    if rest := sum(count for _, count in kinds[MAX_KINDS:]):
        parts.append(f"{rest:,} of {len(kinds) - MAX_KINDS} other kinds")
    total = sum(ignored.values())
    files = "file that is not an image" if total == 1 else "files that are not images"
    return f"{total:,} {files}: {', '.join(parts)}"
