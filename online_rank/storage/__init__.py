"""Saving models to files, and runs that survive a crash."""

from online_rank.limits import FORMAT_VERSION
from online_rank.storage.checkpoint import CheckpointDirectory
from online_rank.storage.files import ModelFileError, load, save
from online_rank.storage.folder import CheckpointError

__all__ = ["FORMAT_VERSION", "CheckpointDirectory", "CheckpointError", "ModelFileError", "load", "save"]
