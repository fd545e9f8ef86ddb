"""Benchmarks: one file a question, run as `python -m benchmarks.NAME`; results as Markdown and PNG in `benchmarks/results/`."""
