"""Kernels compiled ahead of time: one object file of machine code a target, loaded without numba.

`loading` is all that a process needs that uses one. `building` makes one, with `wrappers`, the functions by which Python calls
the machine code, and `runtime`, what numba's own code calls.
"""
