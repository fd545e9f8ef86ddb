"""Benchmarks: one file a question; run one with `python -m benchmarks.NAME`."""
