"""diverset: cross-modal retrieval with sets of diverse embeddings."""
