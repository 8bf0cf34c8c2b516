"""Trains dense passage retrievers with improved negative contrast."""
