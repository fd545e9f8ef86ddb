"""Online learning to rank: models that learn from one query at a time.

The public names are loaded on first use, so that `import online_rank` costs next to nothing and compiles nothing.
"""
