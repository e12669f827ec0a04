"""The base of models of documents."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A mapping of a document, without unknown keys. Its numbers are finite, as in JSON.

    Its validator is built at the first use, for a fast start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)
