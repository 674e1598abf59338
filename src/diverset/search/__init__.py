"""From a question to hits with reasons, over the library's indexes."""
