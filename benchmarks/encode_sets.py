"""Encode captions and images of a dataset for search.py (`--sets`, `--queries-file`).

python benchmarks/encode_sets.py path/to/dataset_coco.json path/to/images OUT --texts 100000
"""

import argparse
import json
from pathlib import Path

import numpy as np

import diverset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset", help="JSON file in the format of Karpathy's splits")
    parser.add_argument("images", type=Path, help="folder of its images")
    parser.add_argument("out", type=Path, help="folder for texts.npy and images.npy")
    parser.add_argument("--model", default="photos", help="(default: photos)")
    parser.add_argument("--text-split", default="train", help="of the captions (default: train)")
    parser.add_argument("--image-split", default="val", help="of the images (default: val)")
    parser.add_argument("--texts", type=int, default=100_000, help="captions (default: 100,000)")
    args = parser.parse_args()
    images = json.loads(Path(args.dataset).read_text(encoding="utf-8"))["images"]
    captions = [
        sentence["raw"]
        for image in images
        if image["split"] == args.text_split
        for sentence in image["sentences"]
    ][: args.texts]
    files = [
        args.images / image.get("filepath", "") / image["filename"]
        for image in images
        if image["split"] == args.image_split
    ]
    model = diverset.load(args.model)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, sets in (
        ("images", model.encode_images(files)),
        ("texts", model.encode_texts(captions)),
    ):
        np.save(args.out / f"{name}.npy", sets.numpy())
        print(f"{name}.npy: {tuple(sets.shape)}")


if __name__ == "__main__":
    main()
