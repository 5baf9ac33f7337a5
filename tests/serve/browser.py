"""A real browser for the tests of the pages, and a monitor of what pages do in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@contextmanager
def browser() -> Iterator:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


class PageMonitor:
    """Records what a page must not do: errors, dialogs, requests to other hosts."""

    def __init__(self, page, own: str) -> None:
        self.faults: list[str] = []
        page.on("console", lambda m: m.type in ("error", "warning") and self.faults.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.check(request.url, own))

    def check(self, url: str, own: str) -> None:
        if not url.startswith((own, "data:", "blob:")):
            self.faults.append(f"request: {url}")
