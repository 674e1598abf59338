"""What a power loss at any moment leaves of an index; run by test_power_loss.

`write` is traced by strace while it adds, replaces, deletes and compacts. `crash_states` replays
the trace up to every call and then loses data as a disk may: everything since the last fsync of a
file, or a random part of it, and names of files since the last fsync of their folder.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat"
COMMAND = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}"]
LINE = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)\) += (-?\d+)")
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
DESCRIPTOR = re.compile(r"^(?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2}|[^>])*)>")


def write(folder: str, acknowledgements: str) -> None:
    """The calls under test; each is acknowledged by a line once it has returned."""
    import safetensors.torch
    from index.index_support import SETTINGS
    from index.kill_writer import versions

    from diverset.index import SetIndex, segment_writer, segments

    def save_file(tensors, file, metadata):  # safetensors writes to mapped memory, which is no call
        Path(file).write_bytes(safetensors.torch.save(tensors, metadata))

    segments.save_file = save_file
    segment_writer.FLUSH_SIZE, segment_writer.MERGE_COUNT = 6, 2
    done = os.open(acknowledgements, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with SetIndex.create(folder, SETTINGS) as index:
        os.write(done, b"create\n")
        for number, call in enumerate(CALLS_UNDER_TEST):
            ids = [f"id{n}" for n in call["ids"]]
            if call["kind"] == "add":
                version = call["version"]
                sets = versions([version] * len(ids))
                index.add(ids, sets, [{"version": version}] * len(ids))
            elif call["kind"] == "delete":
                index.delete(ids)
            else:
                index.compact()
            os.write(done, b"%d\n" % number)


def _calls() -> list[dict]:
    rng = random.Random(3)
    calls = []
    for version in range(14):
        kind = "compact" if version in (6, 12) else "delete" if version % 4 == 3 else "add"
        calls.append({"kind": kind, "ids": rng.sample(range(20), 4), "version": version})
    return calls


CALLS_UNDER_TEST = _calls()


@dataclass
class File:
    """A file: what is surely on the disk, and the writes since the last fsync."""

    durable: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)  # -1: truncate to the length

    def content(self, keep: list[bool] | None = None) -> bytes:
        data = bytearray(self.durable)
        for number, (offset, chunk) in enumerate(self.pending):
            if keep is not None and not keep[number]:
                continue
            if offset < 0:
                del data[int(chunk) :]
            else:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset : offset + len(chunk)] = chunk
        return bytes(data)


@dataclass
class Disk:
    """One folder: names on the disk, and changes of names since the last fsync of the folder."""

    names: dict[str, File] = field(default_factory=dict)
    durable_names: dict[str, File] = field(default_factory=dict)

    def apply(self, call: str, paths: list[str], data: bytes, offset: int | None) -> None:
        name = paths[0]
        if call == "openat":
            self.names.setdefault(name, File())
        elif call in ("write", "pwrite64"):
            file = self.names[name]
            at = len(file.content()) if offset is None else offset
            file.pending.append((at, data))
        elif call == "ftruncate":
            self.names[name].pending.append((-1, str(offset).encode()))
        elif call in ("fsync", "fdatasync") and name in self.names:
            file = self.names[name]
            file.durable, file.pending = file.content(), []
        elif call.startswith("rename"):
            self.names[paths[1]] = self.names.pop(name)
        elif call.startswith("unlink"):
            self.names.pop(name, None)

    def sync_names(self) -> None:
        self.durable_names = dict(self.names)

    def states(self, rng: random.Random) -> Iterator[dict[str, bytes]]:
        """What the disk may hold after a power loss now."""
        yield {name: file.content() for name, file in self.names.items()}
        for names in (self.names, self.durable_names):
            yield {name: file.durable for name, file in names.items()}
            yield {
                name: file.content([rng.random() < 0.5 for _ in file.pending])
                for name, file in names.items()
            }


def crash_states(
    trace: str, folder: str, acknowledgements: str, seed: int = 0
) -> Iterator[tuple[list[str], dict[str, bytes]]]:
    """Every state that a power loss can leave, with the lines acknowledged until then."""
    disk, rng, done = Disk(), random.Random(seed), []
    for line in trace.splitlines():
        parsed = LINE.match(line)
        if not parsed or int(parsed[3]) < 0:
            continue
        call, args = parsed[1], parsed[2]
        texts = [ast.literal_eval(f"b'{text[0]}'") for text in TEXT.findall(args)]
        descriptor = DESCRIPTOR.match(args)
        path = _decode(descriptor[1]) if descriptor else ""
        if call == "write" and path == acknowledgements:
            done.append(texts[0].decode().strip())
            continue
        if call in ("write", "pwrite64", "ftruncate", "fsync", "fdatasync"):
            paths = [path]
        else:
            paths = [os.path.join(path, os.fsdecode(text)) for text in texts]
        if call == "openat" and "O_CREAT" not in args:
            continue
        if call in ("fsync", "fdatasync") and path == folder:
            disk.sync_names()
        names = [os.path.basename(path) for path in paths]
        if not all(os.path.dirname(path) == folder for path in paths) or "-shm" in names[0]:
            continue
        tail = args.rsplit(",", 1)[1].strip() if call in ("pwrite64", "ftruncate") else None
        data = texts[0] if call in ("write", "pwrite64") else b""
        disk.apply(call, names, data, int(tail) if tail else None)
        for state in disk.states(rng):
            yield list(done), state


def _decode(text: str) -> str:
    return os.fsdecode(ast.literal_eval(f"b'{text}'")).removesuffix(" (deleted)")


def check_state(folder: Path, done: list[str], files: dict[str, bytes]) -> None:
    """What was acknowledged is there; the call under way happened wholly or not at all."""
    from index.kill_writer import after, check

    from diverset.index.quick_checks import holds_index

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if not holds_index(folder):
        assert not done, f"the index is lost after {done}"
        return
    state: dict[str, int] = {}
    finished = max(len(done) - 1, 0)
    for call in CALLS_UNDER_TEST[:finished]:
        state = after(state, _named(call))
    following = CALLS_UNDER_TEST[finished : finished + 1]
    check(str(folder), [state, *(after(state, _named(call)) for call in following)])


def _named(call: dict) -> dict:
    return {**call, "ids": [f"id{n}" for n in call["ids"]]}


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2])
