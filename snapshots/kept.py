"""The states in a run's folder by their steps, and which older ones are kept to go back to. Nothing here loads torch.

`kept-STEP.json` is the index of such a state, as `state.json` is the newest's; its data file is not written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from league.runtime.disk import write_atomic
from league.snapshots.files import INDEX, PREVIOUS
from league.types.schema import read_file


def states_of(folder: Path, *, is_here: bool = True) -> dict[int, Path]:
    """Steps -> index of each state that a run can be rewound to, the earliest first; its data is not looked at.

    is_here: whether the data has to be there, which another machine may have.
    """
    found = {}
    for index in (*sorted(folder.glob("kept-*.json")), folder / PREVIOUS, folder / INDEX):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            head = json.loads(read_file(index))
            if not is_here or (folder / Path(head["data"]).name).is_file():
                found[int(json.loads(head["tree"])["counters"]["steps"])] = index
    return dict(sorted(found.items()))


def rewritten(index: Path, entries: Mapping[str, Any]) -> bytes:
    """An index whose state has other entries at its top, which have no tensors, to be written elsewhere.

    Raises:
        OSError, ValueError, KeyError: it cannot be read.
    """
    head = json.loads(read_file(index))
    text = json.dumps({**json.loads(head["tree"]), **entries})
    return json.dumps({**head, "tree": text, "tree_sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def pinned_rows(folder: Path) -> set[str]:
    """The names of the segments that any state covers; nothing of a state that cannot be read."""
    found: set[str] = set()
    for index in (*sorted(folder.glob("kept-*.json")), folder / PREVIOUS, folder / INDEX):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            segments = json.loads(json.loads(read_file(index))["tree"])["rows"]["segments"]
            found |= {segment["name"] for those in segments.values() for segment in those}
    return found


def keep_newest(folder: Path, steps: int, every: int, most: int) -> None:
    """Keeps the newest state, of so many `steps`, and lets go of those that `chosen` leaves out.

    Raises:
        OSError: the disk refuses.
    """
    write_atomic(folder / f"kept-{steps:012d}.json", read_file(folder / INDEX))
    there = {int(path.stem.removeprefix("kept-")): path for path in sorted(folder.glob(f"kept-{'[0-9]' * 12}.json"))}
    stays = chosen(there, every, most)
    for path in (path for step, path in there.items() if step not in stays):
        path.unlink()
    remove_unnamed(folder)


def chosen(steps: Iterable[int], every: int, most: int) -> set[int]:
    """Which of these states are kept: the newest, and one in each octave of ages (1, 2 to 3, 4 to 7, ... marks ago).

    A mark is each multiple of `every` steps. In an octave of width a the mark is kept that is the multiple of a, which
    was its octave's at every lesser age, too; so it is there, however often the others went.

    Args:
        steps: of the states, one a mark.
        every: steps between marks.
        most: how many are kept; the oldest go.
    """
    newest = max(steps, default=0) // every
    octaves: dict[int, list[int]] = {}
    for step in steps:
        octaves.setdefault((newest - step // every).bit_length(), []).append(step)
    spaced = {
        octave: min(members, key=lambda step: (step // every % (1 << max(0, octave - 1)), step))
        for octave, members in octaves.items()
    }
    return {spaced[octave] for octave in sorted(spaced)[:most]}


def data_of(index: Path) -> str | None:
    """The name of the data file that an index names; None where it is missing or damaged.

    Raises:
        OSError: it cannot be read, which says nothing of what it names.
    """
    try:
        return Path(json.loads(read_file(index))["data"]).name
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def kept_data(folder: Path) -> set[str | None]:
    """The names of the data files of the states that are kept."""
    return {data_of(index) for index in sorted(folder.glob("kept-*.json"))}


def remove_unnamed(folder: Path) -> None:
    """Removes the data files that no index names."""
    named = {data_of(folder / INDEX), data_of(folder / PREVIOUS), *kept_data(folder)}
    for path in sorted(folder.glob(f"state-{'[0-9a-f]' * 16}.safetensors")):
        if path.name not in named:
            path.unlink()
