"""A library: the pictures and texts of one's own folders, indexed and kept up to date.

Nothing is ever written into the folders that are indexed.
"""
