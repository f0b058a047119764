"""What a command answers in words: an evaluation, a gate, an exploiter, a film, an import, a replay, a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from league.errors import command_line, next_step, shortened
from league.printing import show
from league.printing.tables import Column, print_prose, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from league.arena.evaluations import Evaluation
    from league.arena.gating import GateResult
    from league.arena.human import Ended
    from league.arena.replays import PlaybackResult
    from league.arena.watching import Film
    from league.boards.alarms import Finding
    from league.faces.report import WrittenReport
    from league.sessions.exploitability import Exploit
    from league.sessions.failures import ReplayedFailure as Shown
    from league.sessions.imitation import Clone
    from league.sessions.plans import TrainResult
    from league.store.exchange import Imported


def print_evaluation(result: Evaluation, store: Path) -> None:
    """How both behaved, and the score."""
    s = result.summary
    print_table(
        "mean a match",
        ("", Column(result.a, is_number=True), Column(result.b, is_number=True)),
        [(name, f"{a:.2f}", f"{b:.2f}") for name, (a, b) in s.metrics.items()],
    )
    show()
    reasons = ", ".join(f"{reason} {count}" for reason, count in s.end_reasons.items())
    stored = f"stored as {result.run}" if result.run else f"not stored: no store at {store}"
    print_prose(f"mean match {s.mean_ticks:.0f} ticks; ended by {reasons}; seed {result.seed}; {stored}")
    print_prose(f"{result.a} {s.line(result.b)}")


def endings(result: TrainResult, store: Path) -> list[str]:
    """Where a training stands, a line a learner, and what can be done next; of a finished exploiter nothing."""
    from league.sessions.exploitability import Exploit
    from league.sessions.leagues import LeagueResult

    is_over = result.status == "finished"
    if isinstance(result, Exploit):
        stopped = f"{result.run}: stopped at step {result.steps:,}", next_step("resume", result.run, store=store)
        return [] if is_over else list(stopped)
    learners = result.learners if isinstance(result, LeagueResult) else (result,)
    lines = [f"{x.run}: {x.status} at step {x.steps:,} after {x.updates} updates" for x in learners]
    report = [next_step("report", result.run, "--out", f"{result.run}.html", store=store)] if is_over else []
    if isinstance(result, LeagueResult):
        words = ["payoff"] if is_over else ["resume", result.run]
        return [*lines, next_step(*words, store=store), *report]
    words = ["leaderboard", "--run"] if is_over else ["resume"]
    return [*lines, *result.verdict.splitlines(), next_step(*words, result.run, store=store), *report]


def print_exploit(r: Exploit) -> None:
    """What an exploiter scored and what that says of the agent, in words; nothing where it was stopped."""
    s, least = r.summary, r.exploitability
    if s is None or least is None:
        return
    p = s.payoff
    got, even = (f"scored {s.score:.3f}", "0.5") if p is None else (f"was paid {p.mean:+z.3f} a match", "0")
    _, lower, upper = s.measured
    print_prose(
        f"{r.exploiter} {got} against {r.agent}, 95 % interval {lower:.3f} to {upper:.3f}: {s.games}"
        f" fresh games, {s.wins} won, {s.draws} drawn, {s.losses} lost; {r.run} learned for {r.steps:,} steps"
    )
    if least > 0:
        scale = "on a scale from 0 to 0.5" if p is None else "in the game's payoff a match (NashConv / 2)"
        print_prose(f"exploitability of {r.agent} at least {least:.3f}, {scale}")
    else:
        print_prose(
            f"no weakness of {r.agent} found: the interval does not exclude {even}, so its exploitability is at least"
            f" 0; more --steps, --games or another --seed may find one"
        )


def print_clone(clone: Clone) -> None:
    """What a clone learned from, and how well it decides in the matches held out."""
    told = f"log-loss {clone.log_loss:.3f} nats"
    if clone.accuracy is not None and clone.most_frequent is not None:
        told = f"accuracy {clone.accuracy:.1%} (the most frequent action: {clone.most_frequent:.1%}), {told}"
    print_prose(
        f"{clone.out}: learned from {clone.matches:,} matches in {clone.epochs} epochs; on {clone.held_out:,} decisions"
        f" held out of {clone.decisions:,}: {told}"
    )


def print_film(f: Film) -> None:
    """What a film shows, how much of the match it leaves out, and who won."""
    from league.arena.film import MAX_SECONDS

    shown, whole = f"{f.seconds:.1f}", f"{f.match_seconds:.1f}"
    if f.path.endswith(".replay"):
        part = f"all {whole} s to be played back"
    elif f.path.endswith(".png"):
        part = f"{shown} s into a match of {whole} s"
    elif f.start:
        part = f"{f.start:.1f} to {shown} s of {whole} s"
    elif f.seconds < f.match_seconds:
        longer = "leave --seconds out" if f.match_seconds <= MAX_SECONDS else f"--seconds {MAX_SECONDS} is the most"
        part = f"the first {shown} s of {whole} s, {f.match_seconds - f.seconds:.1f} s left out ({longer})"
    else:
        part = f"all {whole} s"
    end = "a draw" if f.winner == "draw" else f"won by {f.winner}"
    where = f"{f.path}: " if f.path else ""
    print_prose(f"{where}{f.a} against {f.b}, seed {f.seed}, {part}; the match is {end}")


def print_ended(e: Ended) -> None:
    """How a person's match ended, and where it is kept."""
    end = "a draw" if e.winner == "draw" else f"won by {e.winner}"
    kept = f"stored as {e.run}; `league imports remove {e.run}` takes it back" if e.run else "not stored"
    print_prose(
        f"{e.person} (seat {e.seat}) against {e.agent}: {end} ({e.end_reason}), {e.steps:,} steps, seed {e.seed}"
    )
    print_prose(kept)


def print_played(p: PlaybackResult) -> None:
    """What a replay came to when it was played back."""
    end = "a draw" if p.winner == "draw" else f"won by {p.winner}"
    print_prose(f"{p.path}: {p.game}, {p.agents[0]} against {p.agents[1]}, {end} ({p.end_reason}), {p.steps:,} steps")
    if p.is_exact:
        print_prose("played back bit for bit: every number that the game wrote is the same")
    else:
        print_prose(
            "played back to the same end, but some numbers that the game wrote are not the same bit for bit here"
        )


def print_report(r: WrittenReport) -> None:
    """What a report says in a sentence, and how large it is."""
    print_prose(r.summary)
    print_prose(f"{r.path}: {len(r.runs)} runs, {r.matches} matches to be played, {r.num_bytes / 1e6:.1f} MB")


def print_gate(r: GateResult) -> None:
    """What a gate came to, in words."""
    from league.maths.sprt import Sprt

    p, t = r.payoff, r.test
    floor, unit = (t.elo0, "points") if isinstance(t, Sprt) else (t.payoff0, "of payoff")
    claim = "stronger" if floor >= 0 else f"at most {-floor:g} {unit} weaker"
    words = {
        "passed": f"{r.a} is {claim} than {r.b}: H1 is accepted",
        "failed": f"{r.a} is not {claim} than {r.b}: H0 is accepted",
        "undecided": f"undecided: {r.max_games:,} games did not tell whether {r.a} is {claim} than {r.b}",
    }
    print_prose(words[r.decision])
    told = "" if r.elo is None else f"; {r.elo[0]:+z.0f} Elo points, 95 % interval {r.elo[1]:+z.0f} to {r.elo[2]:+z.0f}"
    if p is not None:
        told = f"; payoff {p.mean:+z.3f} a match, 95 % interval {p.lower:+z.3f} to {p.upper:+z.3f}"
    print_prose(f"{r.games:,} games, score {r.score:.3f}{told}; pairs from both lost to both won: {list(r.pairs)}")
    if isinstance(t, Sprt):
        what, evidence = f"SPRT of {t.elo0:g} against {t.elo1:g} {t.elo_model} Elo points", "LLR"
    else:
        what, evidence = f"test of a payoff of {t.payoff0:g} against {t.payoff1:g} a match, by betting", "log capital"
    print_prose(
        f"{what}, alpha {t.alpha:.3g}, beta {t.beta:.3g}:"
        f" {evidence} {r.llr:.2f}, bounds {r.lower:.2f} and {r.upper:.2f}"
    )
    if r.is_promoted:
        print_prose(f"promoted: {r.champion}@best is {r.a}")
    elif r.champion:
        print_prose(f"{r.b} keeps its title; attempt {r.attempt} at it")
    print_prose(f"stored as {r.gate}" if r.gate else "not stored: there is no store")


def print_import(done: Imported, store: Path) -> None:
    """What of a file of matches was taken, and whom it names."""
    print_prose(f"{done.file}: {done.imported:,} of {done.read:,} games are in {store} as {done.run}")
    for name, count in done.replaced.items():
        print_prose(f"replaced: {name} with its {count:,} games")
    for why, count in done.skipped.items():
        print_prose(f"left out: {count:,}, {why}")
    if done.first_bad:
        print_prose(f"the first that cannot be read: {done.first_bad}")
    if done.without_zone:
        print_prose(f"{done.without_zone:,} games have a time without a zone, read as UTC")
    if done.ignored:
        print_prose(f"columns left out: {_some(done.ignored)}")
    for names in done.alike:
        print_prose(f"different agents, though their names differ only by upper and lower case: {', '.join(names)}")
    if done.is_listed:
        print_prose("one seat won every decided game, as in a list of winners first: these seats count for nothing")
    for word, agents in (("agents known before", done.joined), ("new agents", done.new)):
        print_prose(f"{word}: {_some(agents) or 'none'}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(shortened, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def print_replay(result: Shown) -> None:
    """What a file of evidence shows, and whether it happens again."""
    print_prose(result.message)
    for line in (*result.differences, *result.illegal):
        print_prose(line)
    if result.stepped is not None:
        again = "leads there again" if result.stepped else "leads elsewhere"
        print_prose(f"the step before, made once more, {again}")
    print_prose("it happens again" if result.happens_again else "it does not happen again with this league's game")


def print_alarms(findings: Sequence[Finding]) -> None:
    """A sentence an alarm, and of those that are raised the command that shows it."""
    words = {True: "ALARM", False: "quiet", None: "not known"}
    for finding in findings:
        print_prose(f"{words[finding.is_raised]}, {finding.kind}: {finding.sentence}", "  ")
        if finding.is_raised:
            show(f"  {command_line('query', finding.query)}")
