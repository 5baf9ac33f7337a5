"""Files for the readers, written by the tests themselves."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Tests name their files without a folder, as a user in it does."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(here):
    """Write a file of bytes or text and return its name; line breaks stay as they are."""

    def write(name: str, content: str | bytes) -> str:
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write
