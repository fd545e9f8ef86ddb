"""The alerts and the dashboard ask for figures that the service gives."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from online_rank import PerceptronRanker
from online_rank.serving import Models, RankingApp, RankingService

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "monitoring"


@pytest.mark.parametrize("name", ["alerts.yml", "dashboard.json"])
def test_every_figure_that_is_asked_for_is_given(name):
    app = RankingApp(Models(lambda: RankingService(PerceptronRanker())))
    app.figures.answered("/rank", 200, 0.01)
    given = set(re.findall(r"^(online_rank_\w+)", app.figures.text(), re.MULTILINE))
    asked = set(re.findall(r"\bonline_rank_\w+", (FOLDER / name).read_text())) - {"online_rank"}
    assert len(asked) > 5
    assert asked <= given


def test_the_dashboard_is_json_with_a_panel_for_each_place():
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len({panel["id"] for panel in panels})
