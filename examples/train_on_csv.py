"""Train on a CSV of captions, evaluate the run, and use its model.

    python examples/train_on_csv.py my-data/captions.csv --images my-data/images

The table has one row per caption and the columns image, caption, split (train, val, test).
Without a table, scenes are drawn and written as one, and a small network is trained from scratch.
Needs the extra `train`.
"""

import argparse
import csv
import json
from pathlib import Path

import diverset
from diverset.reproduce.scenes import write_scenes
from diverset.training import parse_recipe, train


def scenes_as_table(folder: Path) -> Path:
    """A generated dataset as captions.csv and images/."""
    content = json.loads(write_scenes(folder, train=64, val=16, test=16).read_text())
    table = folder / "captions.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption", "split"])
        for image in content["images"]:
            for sentence in image["sentences"]:
                rows.writerow([image["filename"], sentence["raw"], image["split"]])
    return table


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("table", nargs="?", type=Path, help="captions.csv (default: drawn scenes)")
parser.add_argument("--images", type=Path, help="image folder (default: images/ next to the table)")
parser.add_argument("--out", type=Path, default=Path("runs/csv"), help="folder of the run")
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

table = args.table or scenes_as_table(Path("scenes"))
recipe = "flickr8k_minilm" if args.table else "scenes"  # frozen pretrained networks, or a small CNN
images = (args.images or table.parent / "images").resolve()
overrides = {
    "data.format": "table",
    "data.root": table.parent,
    "data.file": table.name,
    "data.images": images,
    "train.epochs": args.epochs,
}
options = [word for name, value in overrides.items() for word in (f"--{name}", str(value))]
train(parse_recipe(recipe, options), args.out, cache=args.out.parent / "cache")

report = diverset.evaluate(str(args.out), diverset.EvalOptions(split="test"))
print(report.table())
model = diverset.load(args.out)
print("the set of a text:", tuple(model.encode_texts("a red house").shape))
