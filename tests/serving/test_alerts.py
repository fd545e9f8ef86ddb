"""Which fault raises which alerts: `docs/monitoring/alerts.yml`, run by promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).resolve().parents[2] / "docs" / "monitoring" / "alerts.yml"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool: apt-get install prometheus")
JOB = '{job="online_rank"}'
BOUNDS = ("0.005", "0.05", "0.1", "0.25", "0.5", "+Inf")


def series(name, **labels):
    selected = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"online_rank_{name}{{{selected}}}"


def requests(path, status):
    return series("requests_total", path=path, status=status)


def durations(name, slow=0, **labels):
    """Of sixty durations a minute, `slow` between .25 and .5 seconds, and the others below .005."""
    return {
        series(f"{name}_bucket", **labels, le=bound): f"0+{60 if float(bound) >= 0.5 else 60 - slow}x200" for bound in BOUNDS
    }


#: A value each minute, for 200 minutes: `FIRST+EACHxMORE`.
QUIET = {
    f"up{JOB}": "1x200",
    f"process_start_time_seconds{JOB}": "1000x200",
    f"process_cpu_seconds_total{JOB}": "0+6x200",
    f"process_open_fds{JOB}": "40x200",
    f"process_max_fds{JOB}": "1024x200",
    requests("/rank", 200): "0+60x200",
    requests("/learn", 200): "0+60x200",
    requests("/rank", 400): "0+1x200",
    series("requests_in_flight"): "3x200",
    **durations("latency_seconds", path="/rank"),
    **durations("event_loop_delay_seconds"),
    series("ranked_total"): "0+60x200",
    series("learned_total"): "0+50x200",
    series("accepted_total"): "0+60x200",
    series("late_total"): "0+1x200",
    series("evicted_total"): "0+1x200",
    series("deleted_keys_total"): "0x200",
    series("keys"): "100x200",
    series("learning_stopped"): "0x200",
    series("disk_full"): "0x200",
    series("checkpoints_failing"): "0x200",
    series("seconds_ahead"): "0x200",
    series("clock_step_seconds"): "0.4x200",
    series("snapshots_lacking"): "0x200",
    series("inputs_total"): "0+60x200",
    series("unknown_inputs_total"): "0+1x200",
    series("missing_inputs_total"): "0+1x200",
    series("missing_declared_total"): "0+1x200",
    series("odd_values_total"): "0+1x200",
    series("input_drift"): "0.1x200",
    series("drifts_total"): "0x200",
}

#: What differs from a quiet day, and the alerts that fire then.
FAULTS = {
    "nothing": ({}, ()),
    "times ahead of the clock are stored": ({series("seconds_ahead"): "172800x200"}, ("StoredTimesAreAhead",)),
    "the system clock is set back": ({series("clock_step_seconds"): "-3600x200"}, ("ClockWasSet",)),
    "windows end before feedback comes": (
        {series("late_total"): "0+40x200", series("accepted_total"): "0+20x200"},
        ("FeedbackIsLate",),
    ),
    "a client has times ahead of the clock": ({requests("/rank", 400): "0+20x200"}, ("RefusesRequests",)),
    "keys in use are deleted": ({series("deleted_keys_total"): "0+1x200", series("keys"): "200-1x200"}, ("DeletesKeys",)),
    "a model keeps what is to be forgotten": ({requests("/forget", 409): "0x190 0 1x20"}, ("CannotForget",)),
    "another process has the folder": ({f"up{JOB}": "0x200"}, ("Down",)),
    "the disk is broken": (
        {series("learning_stopped"): "1x200", requests("/learn", 503): "0+60x200"},
        ("CannotKeepFeedback", "LearningStopped"),
    ),
    "the disk is full": (
        {series("learning_stopped"): "1x200", series("disk_full"): "1x200", requests("/learn", 503): "0+60x200"},
        ("CannotKeepFeedback", "DiskIsFull", "LearningStopped"),
    ),
    "a checkpoint has no room": ({series("checkpoints_failing"): "1x200"}, ("CannotWriteCheckpoints",)),
    "too many queries wait": ({series("evicted_total"): "0+50x200"}, ("ForgetsQueries",)),
    "answers are slow, as while cold keys were loaded": (durations("latency_seconds", 3, path="/rank"), ("Slow",)),
    "something blocks the event loop": (durations("event_loop_delay_seconds", 3), ("EventLoopIsLate",)),
    "requests pile up": ({series("requests_in_flight"): "180x200"}, ("RequestsPileUp",)),
    "connections use all descriptors": ({f"process_open_fds{JOB}": "1000x200"}, ("RunsOutOfDescriptors",)),
    "a feature that the model needs is missing": ({series("missing_inputs_total"): "0+60x200"}, ("MissingFeatures",)),
    "the ranking of today is missing": ({series("missing_declared_total"): "0+30x200"}, ("MissingDeclared",)),
    "a feature has a typo": ({series("unknown_inputs_total"): "0+30x200"}, ("UnknownFeatures",)),
    "a feature has another name": (
        {series("missing_inputs_total"): "0+60x200", series("unknown_inputs_total"): "0+60x200"},
        ("UnknownFeatures",),
    ),
    "a feature has values of another kind": (
        {series("odd_values_total"): "0+30x200", series("input_drift"): "0.4x200"},
        ("OddValues",),
    ),
    "a feature has other values": ({series("input_drift"): "0.4x200"}, ("FeaturesDrift",)),
    "the loss rises": ({series("drifts_total"): "0x190 1x20"}, ("LossHasRisen",)),
    "no feedback comes": ({series("learned_total"): "5x200"}, ("LearnsNothing",)),
    "the service makes a mistake": ({requests("/rank", 500): "0x197 1x10"}, ("Fails",)),
    "rankings take all of the processor": ({f"process_cpu_seconds_total{JOB}": "0+58x200"}, ("IsBusy",)),
    "a client has a token of another role": ({requests("/learn", 403): "0+2x200"}, ("RefusesTokens",)),
    "the model of the day is not kept": ({series("snapshots_lacking"): "1x200"}, ("LacksSnapshot",)),
    "each of several workers ends at once": (
        {f"process_start_time_seconds{JOB}": "1000x180 1010+60x20"},
        ("Restarts",),
    ),
}


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_raises_its_alerts_and_no_others(fault, tmp_path):
    changes, alerts = FAULTS[fault]
    firing = [{"labels": f'{{alertname="OnlineRank{name}"}}', "value": 1} for name in alerts]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (QUIET | changes).items()],
        "promql_expr_test": [
            {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "3h20m", "exp_samples": firing}
        ],
    }
    # JSON is YAML.
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_rules_are_valid():
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_alert_has_a_fault():
    assert {*re.findall(r"alert: OnlineRank(\w+)", RULES.read_text())} == {
        name for _, names in FAULTS.values() for name in names
    }
