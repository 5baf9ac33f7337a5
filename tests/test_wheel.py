"""What people install: every file of the package, with the types that an editor and a type checker look for."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest

from .conftest import ROOT


def test_the_wheel_holds_every_file_and_the_types(tmp_path):
    pytest.importorskip("setuptools", minversion="77", reason="the wheel is built with setuptools")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "glassformer", tmp_path / "glassformer", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools import build_meta; build_meta.build_wheel('made')"
    done = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "made").glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "glassformer").rglob("*") if path.is_file()}
    assert {"glassformer/py.typed", "glassformer/__init__.pyi"} <= wanted
    assert wanted <= held, f"package-data in pyproject.toml leaves out {sorted(wanted - held)}"
