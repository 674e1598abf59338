"""Services that every package needs: files, locks, SQLite, progress, prefetch, precision."""
