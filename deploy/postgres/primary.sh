#!/usr/bin/env bash
# Run once by the image, when the primary is created: let the replica stream the log.
set -euo pipefail
echo "host replication postgres all scram-sha-256" >> "$PGDATA/pg_hba.conf"
psql -U postgres -c "SELECT pg_reload_conf()"
