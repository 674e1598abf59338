"""Store embedding sets in Qdrant and search them; the score is computed inside the engine.

    python examples/sets_in_qdrant.py qdrant://localhost:6333/photos

Without an address, Qdrant's local engine keeps the collection in memory. On a cluster, add
`?shards=6&replicas=2&write_consistency=2` to the address. Needs the extras `photos` and `engines`.
"""

import argparse
from contextlib import closing

import diverset
from diverset.engines import create_store
from diverset.reproduce.scenes import captions_of, draw_scene, sample_scene

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("address", nargs="?", default="qdrant::memory:#photos")
args = parser.parse_args()

scenes = [sample_scene(seed) for seed in range(12)]
model = diverset.load("photos")
images = model.encode_images([draw_scene(scene, 288) for scene in scenes]).numpy()
settings = diverset.IndexSettings.for_model(model, elements=images.shape[1])

with closing(create_store(args.address, settings)) as store:
    metadata = [{"background": scene.background, "seed": scene.seed} for scene in scenes]
    store.add([f"scene-{scene.seed}" for scene in scenes], images, metadata)
    print(f"{store.count()} sets, {store.count('seed >= 6')} of them with a seed of 6 or more")

    text = captions_of(scenes[7], 1)[0][0]
    print(f"hits for {text!r}:")
    for hit in store.search(model.encode_texts(text).numpy(), k=3, filter="seed >= 6")[0]:
        print(f"  {hit.id} {hit.score:.3f} {hit.metadata['background']}")
    # Large collections: score only the candidates whose mean is nearest.
    approximate = store.search(model.encode_texts(text).numpy(), k=3, exact=False)[0]
    print("approximate:", [hit.id for hit in approximate])
