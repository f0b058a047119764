"""The laboratory book has what `python -m benchmarks.foretell tell` prints, and the table is what it was made from."""

import json
from pathlib import Path

import pytest

from benchmarks import foretell
from league.boards import verdict

PAGE = Path(__file__).parents[1] / "lab" / "experiments.md"
LINE = {
    "name": "sparse",
    "seed": 7,
    "scores": {"25600": {"based": 40.0, "random": 60.0}, "51200": {"based": 50.0, "random": 70.0}, "3000320": {}},
    "readings": {"approx_kl": 0.01, "clip_share": 0.1, "explained_variance": 0.5, "entropy": 0.7, "gradient_norm": 1.0},
}
LINE["scores"]["3000320"] = {"based": 90.0, "random": 99.0, "rival": 1.0}


def test_the_book_has_the_printed_table_and_odds() -> None:
    """Row by row."""
    text, rows = PAGE.read_text(encoding="utf-8"), foretell.read([verdict.MEASURED])
    for line in foretell.by_setting(rows):
        assert line in text
    promising, sick = (line.split(":")[1].split() for line in foretell.tell(rows).splitlines()[:2])
    assert f"{promising[0]} of {promising[2]} become strong" in " ".join(text.split())
    assert f"of the sick ones {sick[0]} of {sick[2]}" in " ".join(text.split())


def test_a_run_joins_the_table(tmp_path: Path) -> None:
    """Its strength is that against the bots, rivals apart; all others are as they were; one of the same seed goes."""
    file = tmp_path / "more.jsonl"
    file.write_text("".join(json.dumps(LINE | {"seed": seed}) + "\n" for seed in (7, 8, 0)))
    known = verdict.measured()
    made = json.loads(foretell.table(foretell.read([verdict.MEASURED, file]), known["game_id"], known["steps"]))
    assert {key: made[key] for key in made if key != "runs"} == {key: known[key] for key in known if key != "runs"}
    fresh = [row for row in made["runs"] if row not in known["runs"]]
    assert [(row["name"], row["seed"]) for row in fresh] == [("sparse", 0), ("sparse", 7), ("sparse", 8)]
    assert len(made["runs"]) == len(known["runs"]) + 2
    assert (fresh[1]["early"], fresh[1]["strength"]) == (0.6, pytest.approx(0.945))
