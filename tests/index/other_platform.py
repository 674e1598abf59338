"""Uses an index and a library as on Windows, as far as a Linux process can; run by test_platforms.

fcntl cannot be imported, folders cannot be opened, and a file that this process has open or mapped
can be neither deleted nor replaced.
"""

import os
import sys
from pathlib import Path

REAL = {name: getattr(os, name) for name in ("open", "unlink", "remove", "replace", "rename")}
refused: list[str] = []


def open_files() -> set[str]:
    """Paths that this process has open or mapped."""
    paths = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            pass
    with open("/proc/self/maps") as maps:
        paths.update(line.split(maxsplit=5)[5].strip() for line in maps if line.count("/"))
    return paths


def check_unused(path: object, folder: int | None = None) -> None:
    base = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
    name = os.path.realpath(os.path.join(base, os.fspath(path)))
    used = [file for file in open_files() if file == name or file.startswith(f"{name}/")]
    if used and not (folder is not None and used == [base]):
        refused.append(name)
        raise PermissionError(32, "The process cannot access the file, it is being used", name)


def refuse(function_name: str):
    def refusing(path, *args, dir_fd=None, **options):
        check_unused(path, dir_fd)
        if function_name in ("replace", "rename") and os.path.exists(args[0]):
            check_unused(args[0])
        if dir_fd is not None:
            options["dir_fd"] = dir_fd
        return REAL[function_name](path, *args, **options)

    return refusing


def open_no_folders(path, flags, *args, **options):
    if os.path.isdir(path) and sys._getframe(1).f_code.co_name != "_rmtree_safe_fd":
        raise PermissionError(13, "Permission denied", os.fspath(path))
    return REAL["open"](path, flags, *args, **options)


def change_platform() -> None:
    """Called before diverset is imported; pytest imports this file as well."""
    sys.modules["fcntl"] = None
    del os.O_DIRECTORY
    for name in ("unlink", "remove", "replace", "rename"):
        setattr(os, name, refuse(name))
    os.open = open_no_folders


def use_index(folder: Path) -> None:
    from index.index_support import SETTINGS, make_sets

    from diverset.index import SetIndex, segment_writer
    from diverset.index.repair import repair

    segment_writer.FLUSH_SIZE, segment_writer.MERGE_COUNT = 8, 2
    with SetIndex.create(folder, SETTINGS) as index, SetIndex.open(folder) as reader:
        for turn in range(12):
            ids = [f"{turn}-{number}" for number in range(5)]
            index.add(ids, make_sets(5, seed=turn))
            for opened in (index, reader):  # maps the segments
                assert opened.search(make_sets(5, seed=turn), k=1)[2][0].id == ids[2]
        index.delete(["3-1"])
        index.compact()
        assert len(reader.search(make_sets(1), k=100)[0]) == 59
        for file in folder.glob("*.codes"):
            data = bytearray(file.read_bytes())
            data[-5] ^= 1
            file.write_bytes(data)
    with SetIndex.open(folder) as index:
        assert len(index.search(make_sets(1), k=100)[0]) == 59
        assert index.verify() == []
    for file in folder.glob("*.codes"):
        os.truncate(file, 100)
    repair(folder)
    with SetIndex.open(folder) as index:
        assert index.verify() == []
        index.compact()
    assert len(list(folder.iterdir())) == 2  # what could not be deleted is swept later


def use_library(folder: Path) -> None:
    from photos.library_support import make_images, make_model

    from diverset.photos.library.indexing import index_folders
    from diverset.photos.library.library import Library
    from diverset.photos.library.snapshot import restore, snapshot
    from diverset.photos.library.verification import find_problems

    photos = make_images(folder / "photos", 5)
    model = make_model(folder / "model")
    with Library.open_or_create(folder / "library", model) as library, library.indexing_lock():
        index_folders(library, [photos])
        assert library.images.count() == 5
        snapshot(library, folder / "snapshot")
    with Library.open(folder / "library") as in_use:
        assert len(in_use.images.search(in_use.images.sample(1), k=9)[0]) == 5
        restore(folder / "snapshot", folder / "library")
    with Library.open_or_create(folder / "library") as library, library.indexing_lock():
        assert index_folders(library).unchanged == 5
    assert find_problems(folder / "library") == []
    assert len(list((folder / "library").glob("images-*"))) == 1


if __name__ == "__main__":
    change_platform()
    use_index(Path(sys.argv[1]) / "index")
    use_library(Path(sys.argv[1]))
    assert refused, "nothing was refused: the test tests nothing"
    print(len(refused))
