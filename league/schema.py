"""The base of all that is read from files: hyperparameters, manifests, evidence."""

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """Unchangeable, strict (an int serves as a float, nothing else is converted) and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)
