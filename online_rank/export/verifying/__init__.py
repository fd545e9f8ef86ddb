"""Asks running engines for the scores of probes, and says which documents they score differently, and why."""
