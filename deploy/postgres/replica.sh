#!/usr/bin/env bash
# The first start copies the primary and writes where to stream from (--write-recovery-conf).
set -euo pipefail
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  pg_basebackup --host primary --username postgres --pgdata "$PGDATA" --wal-method stream --write-recovery-conf
  chmod 700 "$PGDATA"
fi
exec postgres
