"""Rankers, one family a module."""
