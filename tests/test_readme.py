"""The Python code blocks of the README run as they are printed, in order, in one session."""

import re
from pathlib import Path

import pytest
from PIL import Image

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, color in (("beach.jpg", "khaki"), ("street.jpg", "gray")):
        Image.new("RGB", (320, 240), color).save(name)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), session)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "torch.Size([2, 3])"
    assert printed[1].startswith("beach ") and len(printed) == 2  # the filter leaves one item
