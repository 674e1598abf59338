import numpy as np

from diverset.reproduce.scenes import Scene, draw_scene, possible_situations, sample_scene
from diverset.reproduce.scenes.backgrounds import STYLES
from diverset.reproduce.scenes.figures import CIRCULAR, drawings
from diverset.reproduce.scenes.sentences import VERBS
from diverset.reproduce.scenes.vocabulary import BACKGROUNDS, COMPANIONS, KIND, KINDS, PLACED


def test_a_seed_gives_one_scene_and_one_image() -> None:
    assert sample_scene(11) == sample_scene(11)
    assert sample_scene(11) != sample_scene(12)
    first, second = (draw_scene(sample_scene(11), 48) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert first.size == (48, 48) and first.mode == "RGB"


def test_every_situation_is_drawn_inside_its_box() -> None:
    """Also: every situation can be drawn, and leaves clear traces."""
    box = (0.3, 0.3, 0.7, 0.7)
    size = 80
    empty = {
        name: np.asarray(draw_scene(Scene(5, name, (), ()), size), dtype=int)
        for name in ("meadow", "night")
    }
    seen: set[tuple[str, str, str, int]] = set()
    for situation in possible_situations("high"):
        look = (situation.kind, situation.action, situation.companion, situation.count)
        if look in seen or situation.colour != "red":
            continue
        seen.add(look)
        name = "night" if len(seen) % 2 else "meadow"
        image = draw_scene(Scene(5, name, (situation,), (box,)), size)
        rows, columns = np.nonzero(np.abs(np.asarray(image, dtype=int) - empty[name]).sum(2) > 24)
        assert len(rows) > 60, situation
        for pixels in (rows, columns):
            assert pixels.min() >= 0.3 * size - 2 and pixels.max() <= 0.7 * size + 1, situation


def test_the_whole_vocabulary_has_drawings_and_verbs() -> None:
    assert {*drawings(), *CIRCULAR} == {*KIND, *COMPANIONS}
    assert set(STYLES) == set(BACKGROUNDS)
    for kind in KINDS:
        for action in kind.actions:
            assert action not in PLACED or VERBS[kind.habitat, action]
