"""The web server of a library: HTTP API and page."""
