"""glass ... --ray with the real engine: workers and drivers that are killed lose nothing and repeat nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import glassformer
from glassformer.cli.main import main

from ..cli.test_predict import make
from ..conftest import ROOT

pytest.importorskip("ray", reason="ray is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
ROWS, PART = 40_000, 200  # enough that a run is killed in its middle on fast machines too


def wait_for(what, seconds: float = 120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def processes(name: str, ancestor: int) -> list[int]:
    """Running processes whose title holds a name, below another."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            title, place = (path / "cmdline").read_text(), int(path.name)
            while place not in (0, 1, ancestor):
                place = int((Path("/proc") / str(place) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if name in title and place == ancestor:
            found.append(int(path.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in /proc")
def test_killed_workers_and_drivers_lose_nothing(tmp_path):
    model = make(tmp_path / "model", "SequenceClassification")
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    rows.write_text("".join(json.dumps({"id": i, "text": f"the cat {'sat ' * (i % 7)}"}) + "\n" for i in range(ROWS)))
    command = [sys.executable, "-m", "glassformer.cli.main", "predict", "text-classification", str(model)]
    command += ["--input", str(rows), "--output", str(out), "--keep", "id", "--rows-per-part", str(PART), "--json"]
    command += ["--ray", "--workers", "2"]
    settings = {"cwd": ROOT, "env": {**os.environ, "RAY_TMPDIR": "/tmp/ray"}, "stdout": subprocess.PIPE, "text": True}

    driver = subprocess.Popen(command, start_new_session=True, **settings)
    try:
        wait_for(lambda: len(list(out.glob("*.parquet"))) >= 3)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
    time.sleep(1)  # Ray's processes end when their driver is gone
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert 3 <= len(before) < ROWS // PART

    driver = subprocess.Popen(command, start_new_session=True, **settings)
    try:
        done = wait_for(lambda: len(list(out.glob("*.parquet"))) > len(before) and processes("RayWriter", driver.pid))
        os.kill(done[0], signal.SIGKILL)
        shown, _ = driver.communicate(timeout=240)
    finally:
        driver.kill()
    assert driver.returncode == 0
    assert shown.startswith("{"), shown
    assert json.loads(shown)["output"] == str(out)
    assert all((out / name).stat().st_mtime_ns == written for name, written in before.items())  # and not once more
    table = pq.read_table(out)
    assert sorted(table["id"].to_pylist()) == list(range(ROWS))
    assert not list(out.glob("*tmp*"))


SERVE = """
import json, sys, urllib.request
import ray
from ray import serve
from glassformer.scale.ray_serve import application

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"port": int(sys.argv[2])})
serve.run(application(f"tiny={sys.argv[1]}", num_replicas=1, ray_actor_options={"num_cpus": 1}))

def post(path, body):
    address = f"http://127.0.0.1:{sys.argv[2]}/{path}"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        return json.load(urllib.request.urlopen(request, timeout=60))
    except urllib.error.HTTPError as error:
        return error.code

print(json.dumps([post("predict", {"inputs": "so good"}), post("predict", {"inputs": [[3]]})]), flush=True)
"""


def test_the_service_runs_on_ray_serve(tmp_path):
    pytest.importorskip("fastapi", reason="ray[serve] is not installed")
    model = make(tmp_path / "model", "SequenceClassification")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    settings = {**os.environ, "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "90", "RAY_TMPDIR": "/tmp/ray"}
    command = [sys.executable, "-c", SERVE, str(model), str(port)]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=240)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[[")]
    assert lines, done.stderr[-2000:]
    found, status = json.loads(lines[0])
    expected = glassformer.pipeline("text-classification", model=model, top_k=None)(["so good"])[0]
    assert {each["label"] for each in found} == {each["label"] for each in expected}
    assert found[0]["score"] == pytest.approx(max(each["score"] for each in expected), abs=1e-5)
    assert status == 422


def test_what_does_not_go_with_ray_is_refused(tmp_path, capsys):
    for arguments, message in (
        (["embed", "m", "text", "--ray"], "--ray needs --input"),
        (["embed", "m", "--input", "-", "--output", str(tmp_path / "o"), "--ray"], "standard input is none"),
        (["predict", "ner", "m", "--input", "x", "--workers", "2"], "--workers is for --ray"),
        (["predict", "ner", "m", "--input", "x", "-o", "y", "--ray", "--workers", "0"], "--workers must be 1 or more"),
    ):
        assert main(arguments) == 1
        assert message in capsys.readouterr().err
