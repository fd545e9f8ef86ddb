"""Checks that the service in a folder is the one to start: limits may change, the model only on request."""

import logging
import warnings
from collections.abc import Iterable
from typing import Any

from online_rank.base import ranker_of
from online_rank.serving.clock import CLOCK
from online_rank.serving.protocol import RankingService
from online_rank.storage.earlier import as_begun
from online_rank.storage.folder import CheckpointError
from online_rank.storage.tree import settings_of

#: What a service is, except its model.
_OPTIONS = ("measure", "learn_served")
#: The limits of a service, which are not part of its identity.
_LIMITS = ("wait", "wait_bytes", "clock_skew")

_log = logging.getLogger("online_rank.serving")


class OtherService(CheckpointError):
    """A store has the state of another service than the one to start."""


def go_on(kept: RankingService, given: RankingService, store: str, replace_model: bool) -> bool:
    """Let a service from a store continue as the given one, with its limits.

    If both began with the same file, or the given service has no file and the same settings, the learned model is kept. A model
    from another file is refused, or replaces the learned one; waiting queries are kept.

    Returns
    -------
    Whether anything was: a checkpoint has to follow, since the journal is of use only with the model, the plan of feedback and
    the limits that it began with.

    Raises
    ------
    OtherService
        It is another service. The message names what differs.
    """
    is_compared = _is_with_today(kept, given, store, replace_model)
    other = _changed((name, getattr(kept, name), getattr(given, name)) for name in _OPTIONS)
    is_other_file = given.origin is not None and given.origin != kept.origin
    if is_other_file and replace_model:
        other += [] if kept.draws == given.draws else ["one model learns from clicks, the other from grades"]
    elif is_other_file:
        raise OtherService(
            f"{store} began with another model than this one. --replace-model continues with this one and keeps queries that "
            "wait; without a MODEL the one in the folder is used"
        )
    elif given.origin is None and kept.origin is None and kept._promoted is None:
        begun = settings_of(kept.model)
        settings, told = as_begun(begun, settings_of(given.model))
        other += differences(begun, settings)
        for line in told:
            warnings.warn(f"{store}: {line}; a service in an empty folder begins with it", stacklevel=5)
    if other:
        raise OtherService(f"{store} holds the state of a service with other options: {'; '.join(other)}")
    limits = {name: getattr(given, name) for name in _LIMITS}
    is_limited_otherwise = any(getattr(kept, name) != limit for name, limit in limits.items())
    kept.limit(**limits)
    if is_other_file:
        if kept.challenge is not None and (given.challenge is None or kept.challenge.origin != given.challenge.origin):
            kept.challenge = None  # It does not have to be comparable with the model that is given.
        kept.replace_model(given.model, given.origin)
        kept.serving_since = CLOCK.now(), "the model was replaced at the start (--replace-model)"
    is_other_challenge = _challenge(kept, given, is_compared)
    is_other_plan = settings_of(kept.plan) != settings_of(given.plan)
    if is_other_plan:
        kept.change_plan(given.plan)
    return is_other_file or is_other_challenge or is_other_plan or is_limited_otherwise


def _is_with_today(kept: RankingService, given: RankingService, store: str, replace_model: bool) -> bool:
    """Whether both compare the ranking of today with a model: the same one, or given is none.

    Raises OtherService if only the state does, or if it does with another model, unless this one is to replace it.
    """
    old, new = kept.challenge, given.challenge
    if old is None or old.keep is None:
        if new is not None and new.keep is not None and settings_of(kept.model) != settings_of(given.model):
            raise OtherService(
                f"{store} does not compare the ranking of today with a model: start it without --from-today, or with it in an "
                "empty folder"
            )
        return False
    if new is None or new.keep is None:
        if replace_model and given.origin is not None:
            return False
        raise OtherService(
            f"{store} compares the ranking of today with a model: start it with --from-today again. --replace-model with a "
            "MODEL ends the comparison, and serves that model"
        )
    is_same = new.origin in (None, old.origin, kept._promoted)
    if not (is_same or replace_model):
        raise OtherService(
            f"{store} compares the ranking of today with another model than this one. --replace-model begins a comparison with "
            "this one; without a MODEL the one in the folder continues"
        )
    has_turned = old.n_turns % 2 == 1
    today = ranker_of(old.model if has_turned else kept.model).weights
    options = [("--from-today", today, ranker_of(given.model).weights), ("--keep", old.keep, new.keep)]
    if other := _changed(options):
        raise OtherService(
            f"{store} compares the ranking of today with other options: {'; '.join(other)}. Start with those that it has, "
            "or in an empty folder"
        )
    if has_turned and not is_same:
        # The model that goes is the one that serves: the new one is compared with the ranking of today, as at first.
        kept.model, kept._promoted = old.model, None
        kept.serving_since = CLOCK.now(), "--replace-model: another model is compared with the ranking of today"
    return is_same


def _changed(options: Iterable[tuple[str, Any, Any]]) -> list[str]:
    """The options whose values, as kept and as given, differ, in words."""
    return [f"{name} is {before!r}, here {now!r}" for name, before, now in options if before != now]


def _challenge(kept: RankingService, given: RankingService, is_compared: bool) -> bool:
    """Let the challenger that was given challenge the service that was kept, unless it does, or has won before."""
    old, new = kept.challenge, given.challenge
    if new is not None and new.origin is not None and new.origin == kept._promoted:
        return False
    if old is not None and new is not None and (is_compared or old.origin == new.origin):
        is_other = old.promote_at != new.promote_at
        old.promote_at = new.promote_at
        return is_other
    if old is None and new is None:
        return False
    if old is not None:
        why = "there is no --challenger now" if new is None else "another one begins"
        _log.warning("the comparison with another model ends (%s): %s", why, old.difference_text)
    kept.begin_challenge(new, kept.model)
    return True


def differences(kept: Any, given: Any, where: str = "model") -> list[str]:
    """The differences between two trees of settings, by name.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> differences(settings_of(StreamScaler() | PerceptronRanker()), settings_of(StreamScaler() | PerceptronRanker("ap")))
    ["PerceptronRanker.measure is 'ndcg@10', here 'ap'"]
    >>> differences(settings_of(StreamScaler() | PerceptronRanker()), settings_of(PerceptronRanker()))
    ['model is a RankingPipeline, here a PerceptronRanker']
    """
    if kept == given:
        return []
    if isinstance(kept, dict) and isinstance(given, dict):
        if kept.get("class") != given.get("class"):
            return [f"{where} is {_named(kept)}, here {_named(given)}"]
        inside, keys = kept.get("class") or where, [*kept, *(key for key in given if key not in kept)]
        if "parameters" in kept:
            kept, given, keys = kept["parameters"], given["parameters"], [*kept["parameters"]]
            return [found for key in keys for found in differences(kept[key], given.get(key), f"{inside}.{key}")]
        return [found for key in keys for found in differences(kept.get(key), given.get(key), where)]
    if isinstance(kept, list) and isinstance(given, list) and len(kept) == len(given):
        return [found for a, b in zip(kept, given, strict=True) for found in differences(a, b, where)]
    return [f"{where} is {_named(kept)}, here {_named(given)}"]


def _named(tree: Any) -> str:
    if isinstance(tree, dict) and "class" in tree:
        return f"a {tree['class']}"
    return repr(tree)[:60]
