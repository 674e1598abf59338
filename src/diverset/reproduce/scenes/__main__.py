"""Draw the dataset of recipes/scenes.yaml: `python -m diverset.reproduce.scenes FOLDER`."""

import argparse

from diverset.reproduce.scenes.dataset import write_default_scenes
from diverset.runtime.progress import Progress

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m diverset.reproduce.scenes", description="draw images with captions"
    )
    parser.add_argument("folder", help="where to write images/ and dataset_scenes.json")
    with Progress() as progress:
        print(write_default_scenes(parser.parse_args().folder, progress=progress.task("drawing")))
