"""Plot why an image matches a text: the attention of every element, and its share of the score.

    python examples/explain_match.py photo.jpg "a dog on the beach" --out match.png

Without an image, a scene is drawn. Needs the extras `photos` and `analysis`.
"""

import argparse

import matplotlib

matplotlib.use("Agg")  # no window

import matplotlib.pyplot as plt

import diverset
from diverset.data.images import open_image
from diverset.index.explain import explain
from diverset.model.overlays import COLOURS, overlay
from diverset.reproduce.scenes import captions_of, draw_scene, sample_scene

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("image", nargs="?", help="an image file (default: a drawn scene)")
parser.add_argument("text", nargs="?", help="what it should show (default: the scene's caption)")
parser.add_argument("--out", default="match.png")
args = parser.parse_args()

scene = sample_scene(3)
image = open_image(args.image) if args.image else draw_scene(scene, 320)
text = args.text or captions_of(scene, 1)[0][0]

model = diverset.load("photos")
query, stored = model.encode_texts(text).numpy(), model.encode_images([image]).numpy()
explanation = explain(query[0], stored, model.config.similarity.alpha)
shares = explanation.contributions[0].sum(axis=0)  # of the image's elements; they sum to 1
maps = model.element_maps(image)

figure, axes = plt.subplots(1, 1 + len(maps), figsize=(3 * (1 + len(maps)), 3.4))
axes[0].imshow(image)
axes[0].set_title(f"score {explanation.scores[0]:.2f}")
for number, (axis, attention) in enumerate(zip(axes[1:], maps, strict=True)):
    axis.imshow(overlay(image, attention, COLOURS[number]))
    axis.set_title(f"element {number + 1}: {shares[number]:.0%}")
for axis in axes:
    axis.axis("off")
figure.suptitle(text)
figure.savefig(args.out, bbox_inches="tight")
print(f"{args.out}: {text!r}, shares", [round(float(share), 2) for share in shares])
