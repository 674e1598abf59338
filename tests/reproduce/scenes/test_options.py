import pytest

from diverset.errors import OptionError
from diverset.reproduce.scenes import ScenesOptions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("situations", 0),
        ("situations", 7),
        ("situations", True),
        ("captions", 0),
        ("size", 8),
        ("size", 96.0),
        ("held_out_size", 8),
        ("variety", "huge"),
        ("backgrounds", ()),
        ("backgrounds", ("moon",)),
    ],
)
def test_an_invalid_option_is_named(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        ScenesOptions(**{name: value})  # type: ignore[arg-type]
