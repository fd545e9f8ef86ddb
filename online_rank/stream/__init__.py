"""Streams of queries: files, generators, delays."""
