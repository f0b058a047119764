"""The pictures that the README shows are what their data draw today."""

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent


def pictures(path: Path) -> list[npt.NDArray[np.uint8]]:
    """Every picture of a file."""
    with Image.open(path) as image:
        found = []
        for i in range(getattr(image, "n_frames", 1)):
            image.seek(i)
            found.append(np.asarray(image.convert("RGB")))
        return found


@pytest.mark.parametrize("name", ["knockout.gif", "curve.png"])
def test_a_picture_is_drawn_again_as_it_is(name: str, tmp_path: Path) -> None:
    """From the replay and the figures that are committed; but for the last bits of a colour, which a font may move."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None and spec.loader is not None
    drawer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawer)
    drawer.DRAWN[name](tmp_path / name)
    shown, drawn = pictures(ROOT / "docs" / name), pictures(tmp_path / name)
    assert len(shown) == len(drawn)
    for a, b in zip(shown, drawn, strict=True):
        assert a.shape == b.shape and np.abs(a.astype(int) - b).mean() < 0.5
