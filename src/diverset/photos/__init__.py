"""The photo tool: index folders of photos, search them, serve a web page."""
