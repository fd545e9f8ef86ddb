"""Models in files, and runs that survive a crash."""

from online_rank.storage.checkpoint import CheckpointDirectory, CheckpointError
from online_rank.storage.files import FORMAT_VERSION, ModelFileError, load, save
from online_rank.storage.journal import Journal

__all__ = ["FORMAT_VERSION", "CheckpointDirectory", "CheckpointError", "Journal", "ModelFileError", "load", "save"]
