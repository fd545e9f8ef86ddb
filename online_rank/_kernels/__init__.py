"""Numba kernels: arrays in, arrays or numbers out. No classes, no Python objects, no I/O."""
