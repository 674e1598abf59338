"""The command line: one sub-command a verb, errors in one line.

Verbs import what they need when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diverset.errors import DiversetError, OptionError, import_extra

if TYPE_CHECKING:
    from diverset.evaluation import Comparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; a mistake of the user's ends with a message and status 2."""
    parser = _parser()
    given, rest = parser.parse_known_args(arguments)
    if rest and not getattr(given, "takes_overrides", False):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    given.overrides = rest
    try:
        status: int = given.run(given)
        return status
    except (DiversetError, OSError) as error:
        print(f"diverset {given.verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="diverset",
        description="Find pictures by words and words by pictures, with sets of embeddings.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.set_defaults(run=_version_or_help(parser), verb="")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")

    demo = _verb(
        verbs,
        "demo",
        "draw pictures, train sets and one vector on them, compare, and write a report",
        "diverset demo\n  diverset demo --out my-demo --epochs 3 --pictures 500",
    )
    demo.add_argument("--out", default="runs/demo", help="folder (default: runs/demo)")
    demo.add_argument("--seed", type=int, default=0)
    demo.add_argument("--epochs", type=int, default=0, help="fewer for a quick look")
    demo.add_argument("--pictures", type=int, default=2000, help="to train on (default: 2000)")
    demo.set_defaults(run=_demo)

    train = _verb(
        verbs,
        "train",
        "train a recipe, or go on with a run that was stopped",
        "diverset train recipes/flickr8k_minilm.yaml --out runs/a --data.root flickr8k\n"
        "  diverset train recipes/scenes.yaml --out runs/b --train.seed 1 --optim.lr 5e-4",
    )
    train.add_argument("recipe", help="a YAML file")
    train.add_argument("--out", required=True, help="the run's folder")
    train.add_argument("--cache", help="folder for features of frozen networks")
    train.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    train.add_argument("--processes", type=int, default=1, help="how many (default: 1)")
    train.add_argument(
        "--options", action="store_true", help="list every option of a recipe and leave"
    )
    train.set_defaults(run=_train, takes_overrides=True)

    evaluate = _verb(
        verbs,
        "evaluate",
        "recalls of a run, or of several as an ensemble",
        "diverset evaluate runs/a --data flickr8k --split val\n"
        "  diverset evaluate runs/a runs/b --similarity chamfer --json both.json\n"
        "  diverset evaluate runs/a --against runs/b",
    )
    evaluate.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run")
    evaluate.add_argument("--data", default="", help="folder of the data, if it has moved")
    evaluate.add_argument("--split", default="", help="default: the validation split")
    evaluate.add_argument("--protocol", default="full", help="full or coco_1k (default: full)")
    evaluate.add_argument("--similarity", default="", help="instead of the model's own")
    evaluate.add_argument("--alpha", type=float, default=0.0, help="of smooth-Chamfer")
    evaluate.add_argument("--image-elements", type=int, nargs="+", help="only these, from 0")
    evaluate.add_argument("--text-elements", type=int, nargs="+", help="only these, from 0")
    evaluate.add_argument(
        "--against", nargs="+", metavar="RUN", help="paired bootstrap against this run or ensemble"
    )
    evaluate.add_argument("--eccv", action="store_true", help="ECCV Caption too (COCO test)")
    evaluate.add_argument("--cxc", default="", help="CxC too, from this folder of annotations")
    evaluate.add_argument("--cache", help="folder for features of frozen networks")
    evaluate.add_argument("--device", default="cpu")
    evaluate.add_argument("--json", help="write the report to this file as well")
    evaluate.set_defaults(run=_evaluate)

    _add_reproduce(verbs)

    reference = _verb(
        verbs,
        "import-reference",
        "turn a checkpoint of the paper's released code into a diverset model",
        "diverset import-reference model_best.pth.tar coco_vocab.json models/coco",
    )
    reference.add_argument("checkpoint", help="*.pth.tar: region features and bi-GRU")
    reference.add_argument("vocabulary", help="the vocabulary it was trained with, JSON or pickle")
    reference.add_argument("folder", help="where to write the model")
    reference.add_argument(
        "--heads", type=int, default=4, help="attention heads, not told by the file (default: 4)"
    )
    reference.set_defaults(run=_import_reference)
    _encode_verb(verbs)
    _index_verb(verbs)
    return parser


def _add_reproduce(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    reproduce = _verb(
        verbs,
        "reproduce",
        "make a table or figure of the paper again, training what it needs",
        "diverset reproduce similarity --recipe recipes/scenes.yaml\n"
        "  diverset reproduce all --recipe recipes/flickr8k_minilm.yaml --data.root flickr8k "
        "--jobs 2\n"
        "  diverset reproduce hyperparameters --recipe recipes/scenes.yaml --dry-run",
    )
    reproduce.add_argument(
        "what",
        help="all, comparison, similarity, architecture, variance, hyperparameters, elements, "
        "slot-attention, noisy-correspondence, cost, attention, tsne",
    )
    reproduce.add_argument("--recipe", required=True, help="a YAML file; rows are changes to it")
    reproduce.add_argument("--seeds", type=int, default=2, help="runs of each row (default: 2)")
    reproduce.add_argument(
        "--jobs", type=int, default=1, help="runs side by side; 0 trains in this process"
    )
    reproduce.add_argument("--split", default="val", help="to report: val (default) or test")
    reproduce.add_argument(
        "--runs", default="runs/reproduce", help="folder of runs (default: runs/reproduce)"
    )
    reproduce.add_argument("--out", help="folder of tables (default: results/RECIPE)")
    reproduce.add_argument("--images", type=int, nargs="+", help="attention: which pictures")
    reproduce.add_argument(
        "--skip", nargs="+", help="comparison: methods to leave out, as SCAN, which takes long"
    )
    reproduce.add_argument("--cxc", default="", help="noisy-correspondence: CxC's annotations")
    reproduce.add_argument("--cache", help="folder for features of frozen networks")
    reproduce.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    reproduce.add_argument(
        "--dry-run", action="store_true", help="list the runs that are needed and leave"
    )
    reproduce.set_defaults(run=_reproduce, takes_overrides=True)


def _encode_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    encode = _verb(
        verbs,
        "encode",
        "write the sets of a large collection as shards, split over processes and machines",
        "diverset encode runs/a shards/test --split test\n"
        "  diverset encode runs/a shards/captions --split test --captions\n"
        "  diverset encode models/a shards/photos --pictures photos --rank 0 --world 4\n"
        "  diverset encode models/a shards/texts --texts texts.csv --metadata author year",
    )
    encode.add_argument("model", metavar="RUN_OR_MODEL", help="folder of a run or of a model")
    encode.add_argument("out", help="folder for the shards")
    encode.add_argument("--split", default="", help="of the run's data (default: validation)")
    encode.add_argument("--data", default="", help="folder of the data, if it has moved")
    encode.add_argument("--captions", action="store_true", help="the split's captions, not images")
    encode.add_argument("--pictures", default="", help="all pictures under this folder instead")
    encode.add_argument("--texts", default="", help="a .csv, .tsv or .parquet of texts instead")
    encode.add_argument("--text-column", default="text", help="(default: text)")
    encode.add_argument("--id-column", default="id", help="(default: id)")
    encode.add_argument("--metadata", nargs="+", default=[], help="columns of the table to keep")
    _add_share(encode)
    encode.add_argument("--shard-size", type=int, default=10_000, help="items (default: 10000)")
    encode.add_argument("--device", default="cpu")
    encode.set_defaults(run=_encode)


def _index_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`diverset index ...`: each command is a function of a module that is imported when it runs.

    An index is a folder, qdrant://host:6333/collection, qdrant:folder#collection or
    postgresql://user@host/database?table=name.
    """
    index = _verb(
        verbs,
        "index",
        "look after an index: copy it to another engine, add shards",
        "diverset index copy photos.index qdrant://localhost:6333/photos\n"
        "  diverset index add-shards 'postgresql://me@db/photos?table=photos' shards/photos",
    )
    commands = index.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    index.set_defaults(run=_help_of(index))

    copy = _verb(
        commands,
        "copy",
        "copy all items of an index into another one, or go on with a copy that was stopped",
        "diverset index copy photos.index qdrant://localhost:6333/photos",
    )
    copy.add_argument("source", metavar="A", help="a folder or an address")
    copy.add_argument("target", metavar="B", help="made if it is not there")
    copy.set_defaults(run=_engines_command("copy"))

    shards = _verb(
        commands,
        "add-shards",
        "add what `diverset encode` wrote to an index, or go on with it",
        "diverset index add-shards photos.index shards/photos",
    )
    shards.add_argument("index", metavar="INDEX", help="a folder or an address; made if not there")
    shards.add_argument("folder", help="folder of the shards")
    _add_share(shards)
    shards.set_defaults(run=_engines_command("add_shards"))


def _add_share(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rank", type=int, help="this process (default: RANK, or 0)")
    parser.add_argument("--world", type=int, help="all processes (default: WORLD_SIZE, or 1)")


def _engines_command(name: str) -> Callable[[argparse.Namespace], int]:
    def run(given: argparse.Namespace) -> int:
        from diverset.engines import command

        found: Callable[[argparse.Namespace], int] = getattr(command, name)
        return found(given)

    return run


def _help_of(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def run(given: argparse.Namespace) -> int:
        parser.print_help()
        return 2

    return run


def _encode(given: argparse.Namespace) -> int:
    _need("yaml")
    from diverset.encode import run

    return run(given)


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, does: str, example: str
) -> argparse.ArgumentParser:
    return verbs.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _version_or_help(parser: argparse.ArgumentParser):  # type: ignore[no-untyped-def]
    def run(given: argparse.Namespace) -> int:
        if given.version:
            from diverset import __version__

            print(__version__)
            return 0
        parser.print_help()
        return 2

    return run


def _need(*modules: str) -> None:
    """Say which extra is missing before a verb starts, not in the middle of it."""
    for module in modules:
        import_extra(module, "train")


def _demo(given: argparse.Namespace) -> int:
    _need("yaml", "lightning_fabric", "tensorboard", "rich")
    from diverset.demo import run

    run(Path(given.out), given.seed, given.epochs, given.pictures)
    return 0


def _cache(given: argparse.Namespace) -> Path:
    from diverset.training.evaluating import default_cache

    return Path(given.cache) if given.cache else default_cache()


def _train(given: argparse.Namespace) -> int:
    _need("yaml", "lightning_fabric", "tensorboard", "rich")
    from diverset.training.command import parse_recipe, train

    overrides = ["--help"] if given.options else given.overrides
    recipe = parse_recipe(given.recipe, overrides)
    train(recipe, Path(given.out), _cache(given), given.device, given.processes)
    return 0


def _evaluate(given: argparse.Namespace) -> int:
    _need("yaml", "rich")
    from diverset.evaluation import paired_bootstrap
    from diverset.training.evaluating import Asked, evaluate

    asked = Asked(
        root=given.data,
        split=given.split,
        protocol=given.protocol,
        similarity=given.similarity,
        alpha=given.alpha,
        image_elements=given.image_elements,
        text_elements=given.text_elements,
        eccv=given.eccv,
        cxc=given.cxc,
    )
    cache = _cache(given)
    report = evaluate(given.runs, asked, cache=cache, device=given.device)
    print(report)
    if given.against:
        other = evaluate(given.against, asked, cache=cache, device=given.device)
        if other.ranks is None or report.ranks is None:
            raise OptionError(f"protocol {given.protocol} keeps no ranks to compare; use full")
        print(_difference(paired_bootstrap(other.ranks, report.ranks), given.against))
    if given.json:
        Path(given.json).write_text(report.to_json() + "\n", encoding="utf-8")
    return 0


def _difference(found: Comparison, against: Sequence[str]) -> str:
    return (
        f"against {' + '.join(against)} ({found.first:.1f}): RSUM {found.difference:+.1f}, "
        f"{found.confidence:.0%} interval {found.low:+.1f} to {found.high:+.1f}, "
        f"p = {found.p_value:.3f} (paired bootstrap, {found.resamples:,} drawings)"
    )


def _reproduce(given: argparse.Namespace) -> int:
    _need("yaml", "lightning_fabric", "tensorboard", "rich")
    import_extra("matplotlib", "analysis")
    from dataclasses import replace

    from diverset.analysis.bench import open_bench
    from diverset.analysis.command import reproduce

    bench = open_bench(
        given.recipe,
        given.overrides,
        Path(given.runs),
        Path(given.out) if given.out else None,
        given.split,
        _cache(given),
    )
    bench = replace(
        bench,
        device=given.device,
        seeds=given.seeds,
        jobs=given.jobs,
        images=tuple(given.images or ()),
        cxc=given.cxc,
        skip=tuple(given.skip or ()),
    )
    return reproduce(given.what, bench, given.dry_run)


def _import_reference(given: argparse.Namespace) -> int:
    from diverset.model import Model

    model = Model.from_reference(given.checkpoint, given.vocabulary, given.heads)
    model.save_pretrained(given.folder)
    chosen = model.architecture
    print(
        f"{given.folder}: K = {chosen.image_set.size} and {chosen.text_set.size}, "
        f"D = {chosen.dim}, T = {chosen.image_set.iterations}, alpha = "
        f"{chosen.similarity.alpha:g}, {chosen.text.vocabulary_size} words, "
        f"fingerprint {model.fingerprint()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
