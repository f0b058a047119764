"""The page of `league export --format page` has the rules of the games, and plays the network as Python does."""

import base64
import functools
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.envs import registry
from league.envs.browser import browser_rules
from league.errors import UsageError
from league.types import EXTERNAL
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.snapshots.test_export import GAMES, make_agent

RUNTIME = "onnxruntime-web@1.30.0"
PARTS = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
REPLAY = """
const [file, data, matches, done] = arguments;
const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (x) => x.charCodeAt(0)).buffer);
import(file).then(({ open }) => {
  const game = open(data);
  for (const { seed, winner, steps } of matches) {
    game.start(BigInt(seed));
    for (const [at, { obs, mask, actions }] of steps.entries()) {
      for (const seat of [0, 1]) {
        const seen = game.observe(seat), wanted = floats(obs[seat]), i = wanted.findIndex((x, i) => x !== seen[i]);
        if (i >= 0) return done(`seed ${seed}, step ${at}, seat ${seat}: number ${i} is ${seen[i]}, not ${wanted[i]}`);
        if (String(game.mask(seat)) !== String(mask[seat])) return done(`seed ${seed}, step ${at}: other mask`);
      }
      game.decide(actions);
      for (let tick = 0; tick < game.ticks && game.ending() === null; tick++) game.tick();
      game.frame();
    }
    if (game.ending() !== winner) return done(`seed ${seed}: ${game.ending()} won, not ${winner}`);
  }
  done("equal");
}, (error) => done(error.message));
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this machine."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def at_random(options: dict[str, Any], seeds: range) -> list[dict[str, Any]]:
    """Matches of brawl with keys that are held for some steps, so that fighters run, charge, fall and meet."""
    batch: Any = registry.make("brawl", rows=1, threads=1, options=options)
    batch.controllers[:] = EXTERNAL
    found = []
    for seed in seeds:
        rng, steps = np.random.default_rng(seed), list[dict[str, Any]]()
        batch.reset(np.array([seed], np.uint64))
        while not steps or not batch.terminated[0]:
            kept = rng.random((2, 10)) < 0.7
            batch.actions[0] = np.where(kept, batch.actions[0], rng.random((2, 10)) < 0.3)
            obs = [base64.b64encode(x.tobytes()).decode() for x in batch.obs[0]]
            steps.append({"obs": obs, "mask": batch.mask[0].astype(int).tolist(), "actions": batch.actions[0].tolist()})
            batch.step()
        found.append({"seed": str(seed), "winner": int(batch.result["winner"][0]), "steps": steps})
    return found


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(
    "options", [{}, {"ticks_per_step": 1, "stocks": 5}, {"weapons": False, "time_limit_seconds": 5.0}]
)
def test_brawl_in_a_page_gives_the_same_bits(options: dict[str, Any]) -> None:
    """Every observation and mask of random matches, and who wins, under several options."""
    options = registry.check_options("brawl", options)
    matches = at_random(options, range(2**63 + 7, 2**63 + 19))
    assert {match["winner"] for match in matches} >= {0, 1}
    rules = browser_rules("brawl", options)
    assert rules is not None
    with served(Path(str(resources.files(rules.package)))) as address, browser() as driver:
        driver.set_script_timeout(120)
        driver.get(address + rules.scripts[0])  # a page of that origin
        said = driver.execute_async_script(REPLAY, address + rules.scripts[0], rules.data, matches)
    assert said == "equal"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """onnxruntime-web of npm, by the guide's command."""
    folder = tmp_path_factory.mktemp("runtime")
    if shutil.which("npm") is None:
        pytest.skip("needs npm, which fetches onnxruntime-web")
    if subprocess.run(["npm", "pack", RUNTIME], cwd=folder, capture_output=True).returncode:
        pytest.skip("npm cannot fetch onnxruntime-web here")
    names = [f"package/dist/{part}" for part in PARTS]
    subprocess.run(
        ["tar", "xzf", *(str(x) for x in folder.glob("*.tgz")), "--strip-components=2", *names], cwd=folder, check=True
    )
    return folder


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("game", ["connect four", "brawl, encoder"])
def test_the_page_plays_recorded_matches_as_python_did(game: str, runtime: Path, tmp_path: Path) -> None:
    """Equal observations and actions, log-probabilities within 1e-4; then a person's match runs to its end."""
    make_agent(tmp_path / "agent", *GAMES[game])
    league.export(str(tmp_path / "agent"), tmp_path / "out", format="page", store=tmp_path / "runs")
    with served(tmp_path / "out") as address, browser() as driver:
        driver.get(address)
        wait_for(driver, "document.getElementById('problem').textContent.includes('npm')")
        for part in PARTS:
            shutil.copy(runtime / part, tmp_path / "out")
        driver.get(address)
        wait_for(driver, "document.body.dataset.ready")
        driver.execute_script("document.getElementById('check').click()")
        found = json.loads(wait_for(driver, "document.body.dataset.checked", 120))
        assert found["decisions"] == found["observations"] == found["actions"] > 20
        assert found["apart"] < 1e-4
        driver.execute_script("document.getElementById('play').click()")
        if game == "connect four":
            wait_for(
                driver, "(document.querySelector('#choices button:enabled')?.click(), document.body.dataset.over)", 60
            )
        else:
            wait_for(driver, "document.body.dataset.over", 120)
        assert driver.execute_script("return document.getElementById('ending').textContent")
        assert not [
            line
            for line in driver.get_log("browser")
            if "favicon" not in line["message"] and "ort" not in line["message"]
        ]


def test_a_game_whose_rules_no_page_has_is_refused(tmp_path: Path) -> None:
    make_agent(tmp_path / "agent", *GAMES["kuhn"])
    with pytest.raises(UsageError, match=r"format=page: a page has the rules of brawl and .*; pass --format onnx"):
        league.export(str(tmp_path / "agent"), tmp_path / "out", format="page", store=tmp_path / "runs")
    assert not (tmp_path / "out").exists()
