"""The search as a server with a page: `diverset serve`. Needs the extra `serve`."""
