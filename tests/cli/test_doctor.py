"""glass doctor: its findings, and that each of its checks can fail."""

from __future__ import annotations

import json
import re
import sys

import pytest

from glassformer.cli.checks import machine_checks
from glassformer.cli.checks.machine_checks import FAULT, OK, WARNING
from glassformer.cli.main import main

from ..conftest import ROOT


def run(capsys, code: int = 0) -> dict[str, dict]:
    assert main(["doctor", "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"] == (code == 0)
    return {check["name"]: check for check in report["checks"]}


def test_this_machine_is_healthy(capsys):
    checks = run(capsys)
    assert {"python", "torch", "tokenizers", "threads", "cpu", "devices", "cache", "mirror", "offline"} <= checks.keys()
    assert checks["tokens, engine"]["state"] == checks["tokens, readable"]["state"] == OK
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^(ok|warning) +{re.escape(name)} ", shown, re.MULTILINE) for name in checks)


def test_required_versions_are_those_of_pyproject():
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)[1])
    report = {
        re.match(r"\w+", one)[0]: tuple((re.search(rf"{sign}([\d.]+)", one) or [None, None])[1] for sign in (">=", "<"))
        for one in needed
        if ";" not in one or sys.version_info < (3, 11)  # the only marker is for versions before that
    }
    assert report == machine_checks.PACKAGES


@pytest.mark.parametrize("path", ["_engine", "_reference_pieces"])
def test_a_tokenizer_that_gives_other_ids_is_a_fault(path, monkeypatch, capsys):
    monkeypatch.setattr(machine_checks, "IDS", [*machine_checks.IDS[:-2], 4, 3])
    checks = run(capsys, code=1)
    name = "tokens, engine" if path == "_engine" else "tokens, readable"
    assert checks[name]["state"] == FAULT
    assert "and not [2, 5," in checks[name]["finding"]


def test_a_package_that_is_missing_old_or_new_is_a_fault(monkeypatch):
    state, report = machine_checks.package("no_such_package", None, None)
    assert (state, "No module named" in report) == (FAULT, True)
    assert machine_checks.package("torch", "99", None)[0] == FAULT
    state, report = machine_checks.package("tokenizers", "0.1", "0.2")
    assert (state, ">= 0.1 and < 0.2 is needed" in report) == (FAULT, True)
    assert machine_checks.package("torch", "2.6", None)[0] == OK


def test_mirror_and_offline_are_reported(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "https://near.example, https://far.example/")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    checks = run(capsys)
    assert checks["mirror"]["finding"] == "HF_ENDPOINT: https://near.example, then https://far.example"
    assert checks["offline"]["finding"].startswith("no")
    monkeypatch.setenv("HF_ENDPOINT", "near.example")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    checks = run(capsys, code=1)
    assert "must start with http" in checks["mirror"]["finding"]
    assert checks["offline"]["state"] == WARNING


def test_the_cache_is_measured(tmp_path):
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "x").write_bytes(b"1" * 5000)
    assert machine_checks.cache(tmp_path) == (OK, f"{tmp_path}, 1 model, 5.0 kB")


def test_a_missing_extra_is_reported(monkeypatch):
    monkeypatch.setattr(machine_checks, "EXTRAS", {"no_such_extra": ("pip install it", "nothing")})
    (check,) = machine_checks.extras()
    assert check.finding == "not installed; it brings: nothing (pip install it)"
