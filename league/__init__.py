"""A self-play league engine: train against your own past and scripted bots, rank everyone with error bars."""

from pathlib import Path as _Path

# In a source checkout envs/, policies/, snapshots/ and cli.py lie beside this folder; a wheel
# has them inside it. This lets `import league.envs` find them there too.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "envs" / "__init__.py").is_file():
    __path__.append(str(_root))

__version__ = "0.1.0"
