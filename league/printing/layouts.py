"""What a seat observes and does, as the flat numbers that bots and networks have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from league.errors import one_line, shortened
from league.types import ActionSpec, GameSpec, ObservationPart

MOST_CHOICES = 8
"""Parts of an action whose choices are listed one by one."""


def layout_lines(spec: GameSpec, layout: Sequence[ObservationPart]) -> Iterator[str]:
    """A line a part of the observation: where it lies, its name, kind, shape and range; then the action's."""
    yield f"observation: {_counted(spec.obs_size, 'number')}, as bots and networks see them"
    rows = [_observed(part, spec.obs_range) for part in layout]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    start, stop = spec.opponent_slice
    if start < stop:
        yield f"  of these [{start}:{stop}] show the opponent"
    yield f"action: {_counted(spec.action.num_parts, 'number')}"
    for text in _done(spec.action, 0):
        yield f"  {text}"


def _observed(part: ObservationPart, whole: tuple[float, float]) -> tuple[str, ...]:
    low, high = (0, part.count - 1) if part.kind == "tokens" else part.bounds or whole
    kind = part.kind if part.kind == "image" or part.size > 1 else part.kind[:-1]
    shape = "x".join(map(str, part.shape))
    return f"[{part.start}:{part.stop}]", shortened(one_line(part.name)), f"{shape} {kind}", f"{low:g} to {high:g}"


def _done(action: ActionSpec, start: int, name: str = "") -> Iterator[str]:
    """The parts of an action that begins at number `start`."""
    if action.kind == "mixture":
        for number, part in enumerate(action.parts):
            own = shortened(one_line(action.names[number])) if action.names else str(number)
            yield from _done(part, start, f"{name}.{own}" if name else own)
            start += part.num_parts
        return
    place = f"[{start}:{start + action.num_parts}]  {name}{'  ' if name else ''}"
    if action.kind == "box":
        lows, highs = zip(*action.bounds, strict=True)
        yield f"{place}real numbers, {min(lows):g} to {max(highs):g}"
    elif action.kind == "multi_binary":
        yield f"{place}keys, 0 or 1 each"
    else:
        listed = ", ".join(map(str, action.choices[:MOST_CHOICES])) + (", ..." * (len(action.choices) > MOST_CHOICES))
        tuples = f", at most {action.max_tuples:,} legal tuples" if action.kind == "legal_tuples" else ""
        yield f"{place}choices, of {listed}{tuples}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
