"""Evaluate a model on COCO's test split with ECCV Caption and CxC.

    python examples/evaluate_coco_eccv.py photos --data path/to/coco

The folder holds Karpathy's dataset_coco.json and images/. Without one, a stand-in is written: a few
ids of the real test split with generated images and captions. It shows the format; its numbers
mean nothing. Needs the extras `photos` and `eccv`.
"""

import argparse
import json
import warnings
from pathlib import Path

import diverset
from diverset.reproduce.scenes import captions_of, draw_scene, sample_scene


def write_stand_in(folder: Path, count: int = 12) -> Path:
    """A dataset in COCO's format, under ids of the real test split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package asks for ujson, which it does not need
        from eccv_caption import Metrics
    captions_by_image = Metrics().coco_gts["i2t"]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    images = []
    for seed, id_ in enumerate(sorted(captions_by_image)[:count]):
        scene, caption_ids = sample_scene(seed), captions_by_image[id_]
        draw_scene(scene, 128).save(folder / "images" / f"{id_}.jpg")
        sentences = [
            {"raw": raw, "tokens": raw.lower().rstrip(".").split(), "sentid": int(sentid)}
            for (raw, _), sentid in zip(
                captions_of(scene, len(caption_ids)), caption_ids, strict=True
            )
        ]
        image = {"split": "test", "filename": f"{id_}.jpg", "cocoid": int(id_), "imgid": seed}
        images.append(image | {"sentences": sentences})
    (folder / "dataset_coco.json").write_text(json.dumps({"dataset": "coco", "images": images}))
    return folder


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("model", nargs="?", default="photos")
parser.add_argument("--data", type=Path, help="folder of COCO (default: a generated stand-in)")
parser.add_argument("--cache", type=Path, help="features of frozen networks (default: the user's)")
args = parser.parse_args()

data = args.data or write_stand_in(Path("coco-stand-in"))
options = diverset.EvalOptions(root=str(data), split="test", eccv=True)
report = diverset.evaluate(args.model, options, cache=args.cache)
print(report.table())
