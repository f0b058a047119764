"""Bots that remember their match: classes, and programs that forfeit where they crash, hang or answer nonsense."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from league.envs import registry
from league.envs.matches.mixtures import choices_of
from league.errors import CodeError, ConfigError, GuardError
from league.play import programs
from league.play.evaluation import play
from league.play.histories import FORFEIT, REPLAY, StatefulPolicy
from league.play.pairings import Contestant, Pairing
from league.play.programs import Program, make_bot
from league.play.seats import forfeited
from league.types import DRAW, GameSpec, MatchResult, Origin
from tests.helpers.rollouts import make_collector, same

SPEC = registry.spec("matrix", {})
CPU = torch.device("cpu")
BEGIN = """
import json, os, random, sys, time
def say(**words):
    print(json.dumps(words), flush=True)
def messages():
    for line in sys.stdin:
        yield json.loads(line)
count, seeds = {}, {}
"""
LOOP = """
for message in messages():
    if "start" in message:
        say(ready=1)
    elif "reset" in message:
        count[message["reset"]], seeds[message["reset"]] = 0, message["seed"]
    elif "act" in message:
        row = message["act"]
        count[row] += 1
        n, seed = count[row], seeds[row]
        BODY
"""
COUNTING = "say(act=row, action=[(n + seed) % 3])"
"""Depends on the match's seed, and on how often it was asked."""


class Counting:
    """The same as a class; the seed is not told, so it counts alone."""

    def reset(self) -> None:
        self.n = 0

    def act(self, obs: Any, mask: Any, info: dict[str, Any]) -> int:
        self.n += 1
        return int(info["legal"][self.n % len(info["legal"])])


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(programs.SECONDS, "20")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes a bot of a body of the loop over messages, or of a whole text."""
    made: list[StatefulPolicy] = []

    def bot(
        body: str, workers: int = 0, loop: str = LOOP, start: float = 20.0, spec: GameSpec = SPEC
    ) -> StatefulPolicy:
        path = tmp_path / f"bot{len(made)}.py"
        path.write_text(BEGIN + loop.replace("BODY", body.replace("\n", "\n        ")))
        program = Program(f"program:{path}", (sys.executable, "-I", str(path)), start)
        policy = make_bot("p", program, spec, choices_of(spec.action), CPU, workers)
        assert isinstance(policy, StatefulPolicy)
        made.append(policy)
        return policy

    yield bot
    for policy in made:
        for process in policy.host._processes:
            if process is not None:
                process.close()


def asked(policy: Any, state: Any, steps: int = 1, seed: int = 1) -> list[list[int]]:
    """The choices of all rows in each of some steps."""
    rows = len(state.rows)
    generator = torch.Generator().manual_seed(seed)
    seen = torch.zeros(rows, SPEC.obs_size)
    return [policy.step(seen, state, generator=generator)[0][:, 0].tolist() for _ in range(steps)]


def reasons(policy: StatefulPolicy, kind: str = FORFEIT) -> str:
    return " ".join(line for its, line in policy.take_notes() if its == kind)


def test_a_program_plays_and_knows_each_row_apart(make: Callable[..., Any]) -> None:
    policy = make(COUNTING)
    state = policy.initial_state(5)
    first = asked(policy, state, 6)
    seeds = [match.seed for match in state.rows]
    assert first == [[(n + seed) % 3 for seed in seeds] for n in range(1, 7)]
    state.clear(torch.tensor([2]))
    assert policy.host.live == {0, 1, 3, 4}
    asked(policy, state, seed=2)
    assert state.rows[2].seed != seeds[2] and len(state.rows[2].looks) == 1 and len(state.rows[0].looks) == 7
    assert sorted(match.number for match in state.rows) == [0, 1, 2, 3, 4], "numbers are used again"


@pytest.mark.parametrize("workers", [0, 2])
def test_all_rows_are_asked_before_one_answers(make: Callable[..., Any], workers: int) -> None:
    """The program answers only once it has all questions of a step, the last one first: asked one by one it hangs."""
    rows = 64
    body = f"""
waiting = globals().setdefault("waiting", [])
waiting.append((row, n))
if len(waiting) == {rows // max(1, workers)}:
    for row, n in reversed(waiting):
        say(act=row, action=n % 3)
    waiting.clear()
"""
    policy = make(body, workers)
    assert asked(policy, policy.initial_state(rows), 3) == [[1] * rows, [2] * rows, [0] * rows]
    assert not policy.take_notes()


def test_more_than_a_pipe_holds_is_written_and_read(make: Callable[..., Any]) -> None:
    """Half a megabyte of questions, and answers that the program does not wait to have read."""
    policy = make(COUNTING.replace("action=", 'x="x" * 400, action='))
    state = policy.initial_state(4000)
    assert len(asked(policy, state, 2)) == 2 and not policy.take_notes()


FAILURES = {
    "crash": ("if n == 2 and row == 1: sys.exit('I give up')", "exit code 1; it last said: I give up"),
    "killed": ("if n == 2 and row == 1: os.kill(os.getpid(), 9)", "signal SIGKILL"),
    "memory": ("if n == 2 and row == 1: x = bytearray(2**30)", "MemoryError"),
    "hang": ("if n == 2 and row == 1: time.sleep(60)", "no answer within 2 s"),
    "illegal": ("if n == 2 and row == 1: say(act=row, action=[3])\nelse:", "[3] is no legal action"),
    "too many": ("if n == 2 and row == 1: say(act=row, action=[0, 1])\nelse:", "[0, 1] is no legal action"),
    "no number": ("if n == 2 and row == 1: say(act=row, action='x')\nelse:", "x is no legal action"),
    "no json": ("if n == 2 and row == 1: print('hello', flush=True)", "hello is no JSON"),
    "no question": ("if n == 2 and row == 1: say(act=99, action=[0])", "answers no question"),
    "too long": ("if n == 2 and row == 1: print('x' * 2**17, flush=True)", "a line of more than 65,536 bytes"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_forfeits_its_match_alone(
    make: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other matches of the process are played again to a new one, and go on as if nothing had been."""
    if name == "hang":
        monkeypatch.setenv(programs.SECONDS, "2")
    monkeypatch.setenv(programs.MIB, "500")
    body, words = FAILURES[name]
    policy = make(body + (" " if body.endswith("else:") else "\n") + COUNTING)
    state = policy.initial_state(4)
    played = asked(policy, state, 4)
    assert state.is_forfeited.tolist() == [False, True, False, False]
    for row in (0, 2, 3):
        assert [step[row] for step in played] == [(n + state.rows[row].seed) % 3 for n in range(1, 5)]
    assert words in (told := reasons(policy)) and told.startswith("bot:p forfeited 1 match: ")
    state.clear(torch.tensor([1]))
    assert not state.is_forfeited.any()


def test_an_answer_given_twice_forfeits_its_match(make: Callable[..., Any]) -> None:
    """Where nothing waits for the second one, too."""
    policy = make("""
line = json.dumps({"act": row, "action": [0]})
print(line, line, sep="\\n", flush=True)
""")
    state = policy.initial_state(1)
    asked(policy, state, 2)
    assert state.is_forfeited.all() and "answers no question" in reasons(policy)


def test_a_program_that_always_crashes_forfeits_all(make: Callable[..., Any]) -> None:
    """It is started a few times in a step, not once a row."""
    policy = make("sys.exit(3)")
    begun = policy.host._started
    count: list[int] = []
    policy.host._started = lambda number: (count.append(number), begun(number))[1]
    state = policy.initial_state(30)
    [actions] = asked(policy, state)
    assert state.is_forfeited.all() and set(actions) <= {0, 1, 2} and len(set(actions)) > 1
    assert len(count) < 5 * 30 and "exit code 3" in reasons(policy)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sys.exit('no luck')", "exit code 1; it last said: no luck"),
        ("time.sleep(60)", "no answer within 1 s"),
        ("say(ready=2)\ntime.sleep(60)", "where {'ready': 1} is expected"),
        ("print('hi', flush=True)\ntime.sleep(60)", "hi is no JSON"),
    ],
)
def test_a_program_that_does_not_start_is_one_line(make: Callable[..., Any], text: str, words: str) -> None:
    policy = make("", loop=text, start=1.0 if "within" in words else 20.0)
    with pytest.raises(ConfigError, match=r"bot=p: program:.*at its start: ") as caught:
        asked(policy, policy.initial_state(1))
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("lanes", [(1, 1), (2, 2), (2, 1)])
def test_a_state_goes_on_by_playing_its_matches_again(make: Callable[..., Any], lanes: tuple[int, int]) -> None:
    """As a collector that was never saved does; a new process and a new class know what the old ones knew."""

    def guests() -> dict[str, Any]:
        counting = make_bot("c", Counting, SPEC, choices_of(SPEC.action), CPU)
        return {"bot:p": make(COUNTING), "bot:c": counting}

    first = make_collector("matrix", 8, lanes=lanes[0], guests=guests())
    first.collect(13, 1)
    state = first.state_dict()
    there = guests()
    second = make_collector("matrix", 8, seed=3, lanes=lanes[1], guests=there)
    second.policy.load_state_dict(first.policy.state_dict())
    second.pool.load_state_dict(first.pool.state_dict())
    assert second.load_state_dict(state).carried == 8
    if lanes[0] == lanes[1]:
        assert same(first.collect(20, 2), second.collect(20, 2))
    else:
        second.collect(20, 2)
    assert not there["bot:p"].take_notes() and not there["bot:c"].take_notes()
    fewer = make_collector("matrix", 6, guests=guests())
    assert fewer.load_state_dict(state).lost == 8


def test_what_answers_otherwise_when_it_is_played_again_is_told(make: Callable[..., Any]) -> None:
    first, second = make("say(act=row, action=[0])"), make("say(act=row, action=[1])")
    state = first.initial_state(2)
    asked(first, state, 3)
    there = second.initial_state(2)
    assert there.fits(state.tensors()) and not second.initial_state(3).fits(state.tensors())
    there.load(state.tensors())
    assert asked(second, there) == [[1, 1]]
    assert reasons(second, REPLAY).startswith("bot:p was asked 6 decisions again, and answers otherwise")


def test_a_hang_while_its_matches_are_played_again_forfeits(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.SECONDS, "2")
    first, second = make(COUNTING), make("if row == 0: time.sleep(60)\n" + COUNTING)
    state, there = first.initial_state(3), second.initial_state(3)
    asked(first, state, 2)
    there.load(state.tensors())
    asked(second, there)
    assert there.is_forfeited.tolist() == [True, False, False]


def test_forfeits_are_losses_in_training_and_evaluation(make: Callable[..., Any]) -> None:
    crashing = "if n == 2: sys.exit()\n" + COUNTING
    collector = make_collector("matrix", 8, guests={"bot:p": make(crashing)})
    rows = [row for update in range(1, 8) for row in (collector.collect(5, update), *collector.finished)[1:]]
    met = [row for row in rows if "bot:p" in row.agents]
    assert met and all(row.end_reason == "forfeit" and row.agents[row.winner] == "me" for row in met)
    assert any(row.end_reason != "forfeit" for row in rows)
    found = play(
        lambda count: registry.make("matrix", rows=count, threads=1, options={}),
        [
            Pairing(Contestant("bot:p", make(crashing)), Contestant("bot:q", make(COUNTING)), 4, 1),
            Pairing(Contestant("bot:r", make(crashing)), Contestant("bot:s", make(crashing)), 2, 1),
        ],
        Origin("e", "g"),
        update=1,
    )
    assert all(row.end_reason == "forfeit" for row in found)
    assert [row.winner == DRAW for row in found] == ["bot:s" in row.agents for row in found]
    assert all(row.agents[row.winner] == "bot:q" for row in found if row.winner != DRAW)


def test_a_forfeit_pays_the_most_that_a_match_can_pay() -> None:
    spec = registry.spec("kuhn", {})
    fields: dict[str, Any] = dict.fromkeys(("run", "game_id", "end_reason", "sampling"), "x")
    fields |= dict.fromkeys(("update", "row", "ordinal", "seed", "steps", "ticks"), 0)
    row = MatchResult(kind="training", agents=("a", "b"), winner=0, payoff=1.0, **fields)
    assert spec.payoff_bound == 2.0
    assert forfeited(row, (False, False), spec) is row
    assert [forfeited(row, by, spec).payoff for by in ((True, False), (False, True), (True, True))] == [-2.0, 2.0, 0.0]


def test_a_program_ends_with_its_policy(make: Callable[..., Any], tmp_path: Path) -> None:
    program = Program("program:x", (sys.executable, "-I", "-c", BEGIN + LOOP.replace("BODY", COUNTING)), 20.0)
    policy = make_bot("p", program, SPEC, choices_of(SPEC.action), CPU)
    state = policy.initial_state(1)
    asked(policy, state)
    process = policy.host._processes[0]._process
    assert process.poll() is None
    del policy, state
    assert process.poll() is not None


@pytest.mark.parametrize("arguments", ["self, obs", "self, obs, mask", "self, obs, mask, info"])
def test_a_class_has_an_object_a_match(arguments: str) -> None:
    made: list[Any] = []
    space: dict[str, Any] = {"made": made}
    text = f"class B:\n def reset(self): made.append(self)\n def act({arguments}): return made.index(self) % 3"
    exec(text, space)  # noqa: S102  # of this test
    policy = make_bot("b", space["B"], SPEC, choices_of(SPEC.action), CPU)
    assert isinstance(policy, StatefulPolicy)
    state = policy.initial_state(4)
    assert asked(policy, state, 2) == [[0, 1, 2, 0]] * 2 and len(made) == 4
    state.clear(torch.tensor([1]))
    assert asked(policy, state) == [[0, 1, 2, 0]] and len(made) == 5
    factory = make_bot("b", lambda: space["B"](), SPEC, choices_of(SPEC.action), CPU)
    assert isinstance(factory, StatefulPolicy)


def test_a_class_that_fails_is_one_line() -> None:
    class Wrong:
        def act(self, obs: Any) -> Any:
            return 7

    class Broken:
        def act(self, obs: Any) -> Any:
            raise KeyError("x")

    class Odd:
        def act(self, one: Any, two: Any, three: Any, four: Any) -> Any:
            return 0

    for thing, kind, words in (
        (Wrong, GuardError, "answered 7, where"),
        (Broken, CodeError, "KeyError: 'x'"),
        (Odd, CodeError, "must take obs"),
    ):
        policy = make_bot("b", thing, SPEC, choices_of(SPEC.action), CPU)
        with pytest.raises(kind, match=f"bot:b: .*{words}"):
            asked(policy, policy.initial_state(1))


def test_looks_while_waiting_reach_a_program_that_wants_them(make: Callable[..., Any]) -> None:
    """And again where its match is played again."""
    body = """
looks = globals().setdefault("looks", {})
say(act=row, action=[looks.get(row, 0) % 2])"""
    loop = (
        LOOP.replace("say(ready=1)", "say(ready=1, watch=True)")
        + """
    elif "watch" in message:
        looks = globals().setdefault("looks", {})
        looks[message["watch"]] = looks.get(message["watch"], 0) + 1
"""
    )
    policy = make(body, loop=loop)
    state = policy.initial_state(2)
    seen = torch.zeros(2, SPEC.obs_size)
    policy.watch(seen[:1], state, rows=torch.tensor([1]))
    assert asked(policy, state) == [[0, 1]]
    policy.watch(seen, state)
    assert asked(policy, state) == [[1, 0]]
    other = make(body, loop=loop)
    there = other.initial_state(2)
    there.load(state.tensors())
    assert asked(other, there) == [[1, 0]] and not other.take_notes()


def test_memory_of_a_game_with_masks_is_saved_whole(make: Callable[..., Any]) -> None:
    spec = registry.spec("kuhn", {})
    policy = make("say(act=row, action=[message['mask'].index(1)])", spec=spec)
    state = policy.initial_state(3)
    rng = np.random.default_rng(0)
    for _ in range(4):
        mask = torch.from_numpy(rng.random((3, spec.action.mask_size)) < 0.5)
        mask[:, -1] = True
        chosen = policy.step(torch.from_numpy(rng.random((3, spec.obs_size), np.float32)), state, mask=mask)[0]
        assert chosen[:, 0].tolist() == mask.int().argmax(1).tolist()
    there = policy.initial_state(3)
    there.load(state.tensors())
    for before, now in zip(state.rows, there.rows, strict=True):
        assert before.seed == now.seed and len(before.looks) == len(now.looks) == 4
        for a, b in zip(before.looks, now.looks, strict=True):
            assert (a.obs == b.obs).all() and (a.mask == b.mask).all() and a.action == b.action  # type: ignore[union-attr]
    assert {name: x.shape for name, x in state.tensors().items()} == {
        name: x.shape for name, x in there.join([]).tensors().items()
    }


@pytest.mark.parametrize("value", ["0", "x", "-1"])
def test_a_limit_that_is_none_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(programs.MIB, value)
    with pytest.raises(ConfigError, match=f"{programs.MIB}={value}: must be a positive number"):
        programs.limit(programs.MIB)
    assert os.environ[programs.MIB] == value
