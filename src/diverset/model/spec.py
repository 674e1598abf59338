"""How a model is given: a folder or a name, and for a dual encoder options after a question mark.

openai/clip-vit-base-patch32
models/siglip?crops=5
models/clip?crops=5&prompt=a photo of {}&prompt=a painting of {}
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from diverset.errors import OptionError

OPTIONS = ("crops", "prompt")
READABLE = " {},:'/"  # characters of prompts and paths that need no %-code


@dataclass(frozen=True)
class ModelSpec:
    """A model by name, and how the sets of a dual encoder are made.

    Attributes:
        name: a folder, a shipped model or a name on the hub.
        crops: elements of an image's set; 1 is the whole image alone.
        prompts: templates of an element of a text's set each; "{}" is replaced by the text.
    """

    name: str
    crops: int | None = None
    prompts: tuple[str, ...] = ()

    @property
    def has_options(self) -> bool:
        return self.crops is not None or bool(self.prompts)

    def __str__(self) -> str:
        """As it is parsed.

        >>> str(ModelSpec("models/clip", 5, ("a photo of {}",)))
        'models/clip?crops=5&prompt=a photo of {}'
        """
        options = [] if self.crops is None else [("crops", str(self.crops))]
        options += [("prompt", prompt) for prompt in self.prompts]
        query = urlencode(options, safe=READABLE, quote_via=quote)
        return f"{self.name}?{query}" if query else self.name


def parse_spec(text: str | PathLike[str]) -> ModelSpec:
    """Split a name from its options.

    >>> parse_spec("models/clip?crops=5&prompt=a photo of {}")
    ModelSpec(name='models/clip', crops=5, prompts=('a photo of {}',))
    >>> parse_spec("models/clip?crop=5")
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: unknown model option 'crop' in models/clip?crop=5; choose ...
    """
    spec = str(text)
    name, mark, query = spec.rpartition("?")
    if not mark or Path(spec).exists():
        return ModelSpec(spec)
    crops, prompts = None, []
    for option, value in parse_qsl(query, keep_blank_values=True):
        if option == "prompt":
            prompts.append(value)
        elif option == "crops":
            if not value.isdecimal():
                raise OptionError(f"crops is {value!r} in {spec}; give a whole number")
            crops = int(value)
        else:
            raise OptionError(
                f"unknown model option {option!r} in {spec}; choose from: {', '.join(OPTIONS)}"
            )
    return ModelSpec(name, crops, tuple(prompts))
