"""Encode images and texts as embedding sets and compare them.

    python examples/encode_and_compare.py beach.jpg street.jpg --texts "a dog" "a red car"

Without images, two scenes are drawn. Needs the extra `photos`.
"""

import argparse

import diverset
from diverset.reproduce.scenes import draw_scene, sample_scene

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("images", nargs="*", help="image files (default: two drawn scenes)")
parser.add_argument("--texts", nargs="+", default=["a bird", "a house in the snow", "a boat"])
args = parser.parse_args()

model = diverset.load("photos")
names = args.images or ["scene 0", "scene 1"]
images = model.encode_images(args.images or [draw_scene(sample_scene(i), 320) for i in range(2)])
texts = model.encode_texts(args.texts)
print(f"image sets {tuple(images.shape)}, text sets {tuple(texts.shape)}: (items, K, D)")

scores = model.similarity(images, texts)  # (images, texts), larger is better
for name, row in zip(names, scores.tolist(), strict=True):
    best = max(range(len(row)), key=row.__getitem__)
    print(f"{name}: {args.texts[best]!r} fits best", [round(score, 3) for score in row])
