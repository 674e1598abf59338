import re
from xml.etree import ElementTree

from PIL import Image

from diverset.evaluation import Report
from diverset.evaluation.recall import Recalls
from diverset.reproduce.demo.figures import BASE, TOP, embedded_image, recall_plot


def test_bars_are_as_high_as_the_recalls():
    reports = {
        "sets": Report("full", 2, 4, Recalls(50, 60, 70, 1, 1), Recalls(80, 90, 100, 1, 1)),
        "one": Report("full", 2, 4, Recalls(10, 20, 30, 1, 1), Recalls(5, 15, 25, 1, 1)),
    }
    expected = {
        "text to image": [80, 5, 90, 15, 100, 25],
        "image to text": [50, 10, 60, 20, 70, 30],
    }
    for direction, percent in expected.items():
        svg = recall_plot(reports, direction)
        bars = re.findall(r'class="series(\d)".*?height="([\d.]+)"', svg)
        assert [round(100 * float(height) / (BASE - TOP)) for _, height in bars] == percent
        assert [series for series, _ in bars] == ["0", "1"] * 3
        label = ElementTree.fromstring(svg).get("aria-label", "")
        assert direction in label and f"sets {percent[0]}, {percent[2]}, {percent[4]}" in label


def test_an_image_is_inside_the_page():
    element = embedded_image(Image.new("RGB", (300, 300), "red"), 'a "red" square', 64)
    assert 'src="data:image/webp;base64,' in element and 'width="64"' in element
    assert "a &quot;red&quot; square" in element
