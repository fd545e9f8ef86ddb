"""Saving models to files, and runs that survive a crash."""

from typing import TYPE_CHECKING

from online_rank.limits import FORMAT_VERSION
from online_rank.storage.files import ModelFileError, load, save
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.storage.checkpoint import CheckpointDirectory
    from online_rank.storage.folder import CheckpointError

__all__ = ["FORMAT_VERSION", "CheckpointDirectory", "CheckpointError", "ModelFileError", "load", "save"]

# The store: whoever only loads a model needs no database.
__getattr__, __dir__ = lazily(__name__, {"CheckpointDirectory": "checkpoint", "CheckpointError": "folder"})
