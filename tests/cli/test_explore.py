"""glass explore: it reports its address, serves its page, and ends quietly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from glassformer.cli.main import main

from ..conftest import ROOT
from ..generate.tiny_gpt2 import write_tiny_gpt2


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_answers_all_requests_then(tmp_path, number):
    """The process must not end while a thread computes, which aborted it."""
    write_tiny_gpt2(tmp_path)
    command = [sys.executable, "-m", "glassformer.cli.main", "explore", str(tmp_path), "Once upon", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        address = json.loads(process.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=20) as response:
            assert b"explorer.js" in response.read()
        outcomes = []
        clients = [threading.Thread(target=request_until_refused, args=(address, outcomes)) for _ in range(8)]
        for each in clients:
            each.start()
        while len(outcomes) < 8:
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, b"")
        for each in clients:
            each.join(30)
        assert {*outcomes} <= {200, 503, "refused"}
    finally:
        process.kill()


def request_until_refused(address: str, outcomes: list) -> None:
    body = json.dumps({"text": "Once upon a time", "steps": 20}).encode()
    while True:
        request = urllib.request.Request(address + "api/generate", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                response.read()
                outcomes.append(response.status)
        except urllib.error.HTTPError as error:
            outcomes.append(error.code)
        except urllib.error.URLError as error:
            outcomes.append("refused" if isinstance(error.reason, ConnectionRefusedError) else repr(error))
            return
        except OSError as error:
            outcomes.append(repr(error))
            return


def test_wrong_use(tmp_path, capsys):
    write_tiny_gpt2(tmp_path)
    assert main(["explore", str(tmp_path), "--port", "70000"]) == 1
    assert "--port must be between 0 and 65535" in capsys.readouterr().err
    assert main(["explore", str(tmp_path), "Once", "--pair", "upon"]) == 1
    assert "it is a decoder" in capsys.readouterr().err
