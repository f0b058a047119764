"""torch.compile is used where it can be had, and its absence is said once."""

import pytest
import torch
from torch import Tensor

from league.training.compiling import compiled


def test_a_compiler_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a C++ compiler the function runs as it is, from the first call on, after one line."""
    said: list[str] = []
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("no-such-compiler",))
    monkeypatch.setattr("torch._inductor.config.force_disable_caches", True)

    def curve(x: Tensor) -> Tensor:
        return torch.tanh(x) * 3 + x.sin()

    function, x = compiled(curve, said.append), torch.randn(33)
    assert torch.equal(function(x), curve(x)) and torch.equal(function(x), curve(x))
    assert len(said) == 1 and said[0].startswith("learner.compile: learning cannot be compiled here (")


def test_errors_of_the_function_are_its_own() -> None:
    """What the function itself raises is raised, and nothing is said."""
    said: list[str] = []

    def broken(x: Tensor) -> Tensor:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        compiled(broken, said.append)(torch.zeros(1))
    assert not said
