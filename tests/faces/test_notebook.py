"""What a notebook sees: results as tables and pictures, the store in memory, progress."""

import dataclasses
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import league
from league.arena.watching import Film
from league.boards import plots
from league.boards.leaderboards import Leaderboard
from league.config.written import as_words
from league.errors import ConfigError, StoreError, UsageError
from league.faces import notebook
from league.faces.jupyter import Progress
from league.faces.notebook import StoreTable
from league.play.summaries import Summary
from league.printing.progress import TerminalCallback
from league.store.rows import GameRow
from league.training.run import Report, Start
from league.types.results import MOST_ROWS, Grid, Result, as_html
from tests.helpers.refusals import refusal
from tests.helpers.runs import SETS
from tests.helpers.stores import empty_store

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<img src=x onerror=alert(1)>$\\frac{"
LONG = [*SETS, "run.total_steps=640", "run.evaluate_every=256", "run.allow_short=true"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A tiny run's result and its store."""
    store = tmp_path_factory.mktemp("trained")
    return league.train("smoke", env="matrix", device="cpu", overrides=LONG, store=store), store


def test_tables_are_the_stores(trained: tuple[Any, Path], tmp_path: Path) -> None:
    """A row a run, a row an update with every metric, a query's rows, the cross table; an empty store has no payoff."""
    result, store = trained
    table = league.query("SELECT update, steps, steps FROM metric WHERE name = 'entropy' ORDER BY 1", store=store)
    assert table.columns == ("update", "steps", "steps_2") and table.rows[-1] == (5, 640, 640) and len(table) == 5
    assert list(table.df()["steps"]) == [128, 256, 384, 512, 640]
    assert league.runs(store=store).to_df()["status"].tolist() == ["finished"]
    metrics = league.metrics(result.run, store=store).df()
    assert metrics["steps"].tolist() == [0, 128, 256, 384, 512, 640] and metrics["entropy"].notna().sum() == 5
    payoff = league.payoff(store=store)
    assert len(payoff.rows) == len(league.leaderboard(store=store).entries)
    assert payoff.to_df().shape == (len(payoff.rows), 4 + len(payoff.rows))
    assert "a query reads" in refusal(lambda: league.query("DROP TABLE run", store=store), UsageError)
    assert "no run `none`" in refusal(lambda: league.metrics("none", store=store), UsageError)
    empty_store(tmp_path).add_game(GameRow("g"))
    assert "no matches yet" in refusal(lambda: league.payoff(store=tmp_path), StoreError)


@pytest.fixture
def results(trained: tuple[Any, Path]) -> list[Result]:
    """One result of each kind that a short call gives, with the game's hostile names where it can have them."""
    result, store = trained
    board = league.leaderboard(store=store)
    named = tuple(dataclasses.replace(x, name=HOSTILE) for x in board.boards[0].entries)
    hostile = Leaderboard((dataclasses.replace(board.boards[0], entries=named, anchor=HOSTILE),))
    met = league.evaluate(result.run, "bot:biased", 4, store=store)
    table = StoreTable((HOSTILE, "b"), ((1, 2.0), (2, 1.5), (3, None)))
    gate = league.gate(f"{result.run}@640", f"{result.run}@0", max_games=4, store=store)
    duel = dataclasses.replace(league.matchup(result.run, "bot:biased", store=store), a=HOSTILE)
    cup = league.tournament([result.run, f"{result.run}@0"], games=2, store=store)
    payoff = league.payoff(store=store)
    crossed = dataclasses.replace(payoff, rows=tuple(dataclasses.replace(x, name=HOSTILE) for x in payoff.rows))
    return [result, hostile, met, table, gate, duel, cup, crossed]


def test_results_show_themselves(results: list[Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a line, a text, a table in which names are text, a data frame and a picture.

    Without pandas and matplotlib it is shown all the same; asked for them, it says what to install.
    """
    for result in results:
        line, page = repr(result), result._repr_html_()
        assert len(line) < 400 and "\n" not in line, line
        assert "<table>" in page and "<img" not in page
        assert len(str(result).splitlines()) > 1 and "\x1b" not in str(result)
        assert len(result.to_df()) >= 1
        drawn: Any = result.plot()
        assert drawn._repr_png_().startswith(b"\x89PNG")
    plots._kind.cache_clear()
    for name in ("pandas", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    for result in results:
        assert result._repr_html_()
        assert "league-engine[notebook]" in refusal(result.to_df, UsageError)
        assert "league-engine[plots]" in refusal(result.plot, UsageError)
    plots._kind.cache_clear()


def test_a_wide_or_long_table_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal the last columns that do not fit are named instead; rows past the most are counted."""
    table = StoreTable(("step", "a" * 30, "b" * 30), tuple((i, "x\ny", None) for i in range(MOST_ROWS + 4)))
    assert str(table).splitlines()[0].split() == ["step", "a" * 30, "b" * 30]
    monkeypatch.setenv("COLUMNS", "50")
    *lines, columns, rows = str(table).splitlines()
    assert max(map(len, lines)) <= 50 and lines[1].split() == ["0", "x\\ny"] and len(lines) == 1 + MOST_ROWS
    assert columns == f"columns left out: {'b' * 30}; .to_df() has all" and rows == "4 more rows; .to_df() has all"
    with pytest.raises(UsageError, match="y=3: must be a text or a list of texts or None; pass another y"):
        table.plot(y=3)  # type: ignore[arg-type]
    page = as_html(Grid(("a", "b"), [(1000.5, None), *[(float(i), "x" * 200) for i in range(MOST_ROWS + 4)]]))
    assert page.count("<tr>") == 1 + MOST_ROWS and "5 more rows" in page
    assert ">1,000</td>" in page and ">0</td>" in page and "x" * 81 not in page


def test_settings_may_be_a_dict(tmp_path: Path) -> None:
    """They are the settings of the words that say the same, schedules and roles of a league included."""
    given = {
        "learner": {"gamma": 0.9, "learning_rate": {50_000: 1e-3, 100_000: 3e-4}, "compile": "off"},
        "pool": {"mix": {"self_play": 0.5, "bot:based": 0.5}},
        "agent": {"head_sizes": (8, 8), "opponent_encoder": False},
        "role": {"main": {"min_games": 32}},
    }
    assert as_words(given) == [
        *("learner.gamma=0.9", "learner.learning_rate={ 50_000 = 0.001, 100_000 = 0.0003 }", 'learner.compile="off"'),
        'pool.mix={ self_play = 0.5, "bot:based" = 0.5 }',
        *("agent.head_sizes=[8, 8]", "agent.opponent_encoder=false", "role.main.min_games=32"),
    ]
    assert as_words(("a.b=1",)) == ["a.b=1"]
    for wrong, words in (({"gamma": 0.9}, "a dict"), ({"learner": {"gamma": object()}}, "learner.gamma=<object")):
        assert words in refusal(lambda wrong=wrong: as_words(wrong), ConfigError)  # type: ignore[misc]
    with pytest.raises(ConfigError, match="gama"):
        league.train("smoke", env="matrix", overrides={"learner": {"gama": 0.9}}, store=tmp_path / "s")


def test_a_match_is_shown_in_a_frame_of_its_own(tmp_path: Path) -> None:
    """A page reaches nothing of the notebook, a picture is in the page; a replay is told in a table."""
    film = Film(str(tmp_path / "m.html"), "a", "b", 0, 1, 1.0, 1.0, "a")
    (tmp_path / "m.html").write_text('<script>"</script>')
    assert film._repr_html_().startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;script&gt;&quot;&lt;/script&gt;"')
    (tmp_path / "m.png").write_bytes(b"png")
    drawn = dataclasses.replace(film, path=str(tmp_path / "m.png"))._repr_html_()
    assert drawn == '<img src="data:image/png;base64,cG5n">'
    assert "<table>" in dataclasses.replace(film, path="m.replay")._repr_html_()


def test_progress_is_one_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is displayed once and then replaced, at most twice a second and at the end; names in it are text."""
    published: list[dict[str, Any]] = []
    display = SimpleNamespace(publish_display_data=lambda data, **how: published.append({**how, **data}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with Progress() as panel:
        panel.began(Start(HOSTILE, 0, 0, 640, {}, Path(), ""))
        panel.evaluated(0, "bot:<b>", Summary(3, 0, 1, {}, {}, 1.0))
        for update in range(1, 6):
            told = {"entropy": 1.0}, {"self_play": 0.5}
            panel.report(Report(128 * update, 640, update, 100.0, 1.0, *told, (), HOSTILE))
            panel.say("a line")
    assert [data["update"] for data in published] == [False, True]
    assert len({data["transient"]["display_id"] for data in published}) == 1
    last = published[-1]["text/html"]
    assert "640 of 640 steps" in last and "75% [" in last and "<img" not in last and "<b>bot" not in last
    assert published[-1]["text/plain"] == f"{HOSTILE}: 640 of 640 steps"


def test_functions_show_progress_in_a_notebook_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody watches a panel does, and outside a kernel stderr; `callback=()` shows nothing. What does not train
    has nothing added there."""
    told: list[Any] = []

    def train(stage: str, *, overrides: Any = (), callback: Any = None) -> None:
        told.append(callback)

    called = notebook.shown(train)
    called("smoke")
    called("smoke", overrides={"run": {"verbosity": 0}, "role": {"main": {"min_games": 3}}})
    notebook.shown(lambda say=None: told.append(say))()
    monkeypatch.setattr(notebook, "in_notebook", lambda: True)
    called("smoke")
    called("smoke", callback=())
    assert [x.verbosity for x in told[:2] if isinstance(x, TerminalCallback)] == [1, 0] and told[2] is None
    assert isinstance(told[3], Progress) and told[4] == () and called.__name__ == "train"


@pytest.mark.slow
def test_the_page_s_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, in one place; it leaves the two runs that it trains."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 5
    exec("\n".join(blocks), {"__name__": "page"})  # noqa: S102
    assert league.runs().to_df()["run"].tolist() == ["kuhn-1", "kuhn-2"]


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell ends without an error; training leaves one panel, results tables, plots and the match itself."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(ROOT / "examples/notebook.ipynb", 4)
    assert not any(cell.get("outputs") for cell in book.cells)
    NotebookClient(book, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"display_data", "execute_result"}, "nothing is printed"
    panels = [output.data["text/html"] for output in outputs if output.output_type == "display_data"]
    assert "16,384 of 16,384 steps" in panels[0] and len(panels) <= 3
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    assert sum("image/png" in data for data in shown) == 3 and "<iframe" in shown[-1]["text/html"]
    assert (tmp_path / "runs/brawl-2/metrics.csv").is_file()
