"""Store embedding sets in PostgreSQL with pgvector, copy them from an index, and join with SQL.

    python examples/sets_in_postgres.py "postgresql://user@localhost/mydb?table=photos"

Needs a server with the extension pgvector, and the extras `photos` and `engines`.
"""

import argparse
import tempfile
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import psycopg

import diverset
from diverset.engines import copy_store, create_store
from diverset.reproduce.scenes import captions_of, draw_scene, sample_scene

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("address", help="postgresql://user@host/database?table=name")
args = parser.parse_args()

scenes = [sample_scene(seed) for seed in range(12)]
model = diverset.load("photos")
images = model.encode_images([draw_scene(scene, 288) for scene in scenes]).numpy()
settings = diverset.IndexSettings.for_model(model, elements=images.shape[1])
text = captions_of(scenes[7], 1)[0][0]
query = model.encode_texts(text).numpy()

with (
    tempfile.TemporaryDirectory() as folder,
    closing(diverset.SetIndex.create(f"{folder}/index", settings)) as index,
    closing(create_store(args.address, settings)) as table,
):
    metadata = [{"background": scene.background} for scene in scenes]
    index.add([f"scene-{scene.seed}" for scene in scenes], images, metadata)
    copy_store(index, table)
    print(f"copied {table.count()} sets")
    for ours, theirs in zip(index.search(query, k=3)[0], table.search(query, k=3)[0], strict=True):
        print(f"  {ours.id} {ours.score:.5f} in the index, {theirs.score:.5f} in PostgreSQL")

# The table is an ordinary one: id, metadata (jsonb), mean, and one vector column per element.
parts = urlsplit(args.address)
options = parse_qs(parts.query)
name = options.pop("table")[0]
url = parts._replace(query="&".join(f"{key}={value[0]}" for key, value in options.items())).geturl()
with psycopg.connect(url) as connection:
    statement = psycopg.sql.SQL("SELECT metadata->>'background', count(*) FROM {} GROUP BY 1")
    for background, count in connection.execute(statement.format(psycopg.sql.Identifier(name))):
        print(f"  {count} x {background}")
