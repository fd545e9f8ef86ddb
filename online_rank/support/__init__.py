"""What the rooms share and no user sees: lazy imports, the registry of public names, progress bars, compiling ahead of time."""
