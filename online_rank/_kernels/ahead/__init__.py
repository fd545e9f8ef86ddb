"""Kernels compiled ahead of time: one object file of machine code for each target, loaded without numba.

A process that uses one needs only `loading`. `building` makes one, with `wrappers`, the functions through which Python calls
the machine code, and `runtime`, the functions that numba's code calls.
"""
