"""glass explore: it reports its address, serves its page, and ends quietly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from glassformer.cli.main import main

from ..conftest import ROOT
from ..generate.tiny_gpt2 import write_tiny_gpt2


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_it_serves_until_it_is_interrupted(tmp_path):
    write_tiny_gpt2(tmp_path)
    command = [sys.executable, "-m", "glassformer.cli.main", "explore", str(tmp_path), "Once upon", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        address = json.loads(process.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=20) as response:
            assert b"explorer.js" in response.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, b"")
    finally:
        process.kill()


def test_wrong_use(tmp_path, capsys):
    write_tiny_gpt2(tmp_path)
    assert main(["explore", str(tmp_path), "--port", "70000"]) == 1
    assert "--port must be between 0 and 65535" in capsys.readouterr().err
    assert main(["explore", str(tmp_path), "Once", "--pair", "upon"]) == 1
    assert "it is a decoder" in capsys.readouterr().err
