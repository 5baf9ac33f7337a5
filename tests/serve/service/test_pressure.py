"""Batches, limits, cancellation, and the end of the service."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from glassformer.errors import NotFiniteError
from glassformer.serve.service.server import listen
from glassformer.tasks.text_classification import TextClassification

from ...conftest import ROOT
from .conftest import httpx, running

TEXTS = [" ".join(["so good", "the cat sat", "a", "new er"][i % 4] for i in range(1 + n % 7)) for n in range(40)]


@contextlib.contextmanager
def held(monkeypatch, name="outputs"):
    """The computation of classifiers waits until the block sets the event, and reports the size of its batches."""
    go, begun, sizes = threading.Event(), threading.Event(), []
    original = getattr(TextClassification, name)

    def wait(task, model, batch):
        sizes.append(len(batch.examples))
        begun.set()
        go.wait(20)
        return original(task, model, batch)

    monkeypatch.setattr(TextClassification, name, wait)
    try:
        yield go, begun, sizes
    finally:
        go.set()


def classify(service, text, **more):
    return service.client.post("/tasks/text-classification", json={"inputs": text, **more})


def test_requests_share_batches_and_get_what_they_get_alone(folders, monkeypatch):
    with (
        running({"sst2": folders["sst2"]}) as service,
        held(monkeypatch) as (go, begun, sizes),
        ThreadPoolExecutor(41) as pool,
    ):
        first = pool.submit(classify, service, TEXTS[0])
        begun.wait(20)
        others = [pool.submit(classify, service, text) for text in TEXTS]
        while service.service.models["sst2"].admission.count < 41:
            time.sleep(0.01)
        time.sleep(0.2)  # all are encoded
        go.set()
        found = [each.result().json()[0] for each in [first, *others]]
        assert sizes[0] == 1 and max(sizes) >= 20 and sum(sizes) == 41
        expected = [each[0] for each in map(service.pipe("sst2"), [TEXTS[0], *TEXTS])]
        for one, other in zip(found, expected, strict=True):
            assert one["label"] == other["label"] and one["score"] == pytest.approx(other["score"], abs=1e-6)


def test_batches_keep_to_their_budget_and_options_apart(folders, monkeypatch):
    with running({"sst2": folders["sst2"]}, max_batch_tokens=12) as service:
        sizes = []
        original = TextClassification.outputs

        def outputs(task, model, batch):
            sizes.append(sum(batch.lengths))
            return original(task, model, batch)

        monkeypatch.setattr(TextClassification, "outputs", outputs)
        service.post("/tasks/text-classification", {"inputs": ["so good"] * 9})
        assert max(sizes) <= 12 and sum(sizes) == 36
        with ThreadPoolExecutor(8) as pool:
            found = list(
                pool.map(
                    lambda k: service.post("/tasks/text-classification", {"inputs": "so", "top_k": k}), [1, 2, 3] * 4
                )
            )
        assert [len(each) for each in found] == [1, 2, 3] * 4


def test_the_queue_is_bounded_alike_for_lists_and_single_inputs(folders, monkeypatch):
    with (
        running({"sst2": folders["sst2"]}, max_queue=5) as service,
        held(monkeypatch) as (go, begun, _),
        ThreadPoolExecutor(8) as pool,
    ):
        first = pool.submit(classify, service, "so")
        begun.wait(20)
        second = pool.submit(classify, service, ["so"] * 3)
        while service.service.models["sst2"].admission.count < 4:
            time.sleep(0.01)
        for inputs in (["so"] * 2, ["so"] * 5):
            refused = classify(service, inputs)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert classify(service, ["so"] * 6).status_code == 413
        last = pool.submit(classify, service, "so")  # exactly one more
        time.sleep(0.1)
        go.set()
        assert [each.result().status_code for each in (first, second, last)] == [200, 200, 200]
        assert classify(service, ["so"] * 5).status_code == 200


def test_the_work_of_a_client_that_leaves_is_cancelled(folders, monkeypatch):
    with (
        running({"sst2": folders["sst2"]}) as service,
        held(monkeypatch) as (go, begun, sizes),
        ThreadPoolExecutor(2) as pool,
    ):
        first = pool.submit(classify, service, "so")
        begun.wait(20)
        with pytest.raises(httpx.TimeoutException):
            service.client.post("/tasks/text-classification", json={"inputs": ["so"] * 30}, timeout=0.3)
        while service.service.models["sst2"].admission.count > 1:
            time.sleep(0.01)
        go.set()
        assert first.result().status_code == 200
        assert classify(service, "so").status_code == 200
        assert sizes == [1, 1]  # the list was never computed
        while not any(line["status"] == 499 for line in service.lines()):
            time.sleep(0.01)


def test_a_generation_ends_when_its_client_leaves(folders):
    with running({"gpt2": folders["gpt2"]}) as service:
        worker = service.service.models["gpt2"].generator
        step, seen = worker.batch.step, []

        def slow_step():
            seen.append(len(worker.batch.rows))
            time.sleep(0.02)
            return step()

        worker.batch.step = slow_step
        body = b'{"model": "gpt2", "prompt": "Once", "max_tokens": 90, "stream": true, "seed": 1, "n": 4}'
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
            connection.sendall(head.encode() + body)
            while not seen:
                time.sleep(0.01)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        while worker.batch.members or service.service.models["gpt2"].admission.count:
            time.sleep(0.01)
        assert len(seen) < 60 and max(seen) == 4


def test_generations_join_a_running_batch(folders):
    with running({"gpt2": folders["gpt2"]}) as service, ThreadPoolExecutor(12) as pool:
        worker = service.service.models["gpt2"].generator
        step, seen = worker.batch.step, []

        def counted_step():
            seen.append(len(worker.batch.rows))
            time.sleep(0.002)
            return step()

        worker.batch.step = counted_step
        bodies = [
            {"model": "gpt2", "prompt": prompt, "max_tokens": 10 + 3 * number, "seed": number}
            for number, prompt in enumerate(["Once upon", "She said", "从前", "It didn't"] * 3)
        ]
        texts = []
        for found in pool.map(lambda body: service.post("/v1/completions", body), bodies):
            texts.append(found["choices"][0]["text"])
        assert max(seen) > 1
        for body, text in zip(bodies, texts, strict=True):
            assert service.post("/v1/completions", body)["choices"][0]["text"] == text


def test_only_the_input_at_fault_fails(folders, monkeypatch):
    original = TextClassification.outputs

    def outputs(task, model, batch):
        if any(len(example) == 5 for example in batch.examples):
            raise NotFiniteError("the scores are NaN")
        return original(task, model, batch)

    monkeypatch.setattr(TextClassification, "outputs", outputs)
    with running({"sst2": folders["sst2"]}) as service, ThreadPoolExecutor(8) as pool:
        texts = ["so good", "so", "the cat sat", "a"] * 2
        found = list(pool.map(lambda text: classify(service, text), texts))
        assert [each.status_code for each in found] == [200, 200, 422, 200] * 2


def test_a_fault_of_ours_is_500_without_its_traceback(folders, monkeypatch, caplog):
    monkeypatch.setattr(TextClassification, "answer", lambda *arguments: 1 // 0)
    with running({"sst2": folders["sst2"]}) as service:
        response = classify(service, "so")
    assert response.status_code == 500 and "Traceback" not in response.text and "Zero" not in response.text
    assert "ZeroDivisionError" in caplog.text and "Traceback" in caplog.text


def test_the_key(folders):
    with running({"sst2": folders["sst2"]}, api_key="secret") as service:
        assert classify(service, "so").status_code == 401
        for key, status in (("secret", 200), ("secreT", 401), ("x", 401)):
            response = service.client.post(
                "/predict", json={"inputs": "so"}, headers={"Authorization": f"Bearer {key}"}
            )
            assert response.status_code == status
        assert service.client.get("/health").status_code == 200
        assert service.client.get("/metrics").status_code == 401


def test_pages_of_other_sites_are_refused(service):
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
        assert service.client.post("/embed", json={"inputs": "so"}, headers=headers).status_code == 403
    own = {"Origin": service.address}
    assert service.client.post("/embed", json={"inputs": "so"}, headers=own).status_code == 200
    as_text = {"Content-Type": "text/plain"}
    assert service.client.post("/embed", content='{"inputs": "so"}', headers=as_text).status_code == 415


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/embed", '{"inputs": 3}', 422, "inputs"),
        ("/embed", '{"inputs": ["a", 3]}', 422, "inputs[1]"),
        ("/embed", '{"input": "a"}', 422, "input"),
        ("/embed", "{}", 422, "inputs"),
        ("/embed", "[]", 422, None),
        ("/embed", "", 400, None),
        ("/embed", "{", 400, None),
        ("/embed", '{"inputs": "\\ud800"}', 400, None),
        ("/embed", '{"inputs": "a", "dimensions": ' + "9" * 5000 + "}", 422, "dimensions"),
        ("/tasks/text-classification", '{"inputs": ' + "[" * 100_000, 400, None),
        ("/tasks/text-classification", '{"inputs": "a", "top_k": ' + "9" * 5000 + "}", 422, None),
        ("/tasks/text-classification", '{"inputs": "a", "top_k": "b"}', 422, None),
        ("/tasks/text-classification", '{"inputs": "a", "top_q": 1}', 422, None),
        ("/tasks/text-classification", '{"inputs": "a", "batch_size": 1}', 422, "batch_size"),
        ("/tasks/text-classification", '{"inputs": [{"text": 1}]}', 422, "inputs[0]"),
        ("/tasks/text-classification", '{"inputs": 1}', 422, "inputs"),
        ("/predict", '{"inputs": [["a", "b", "c"]], "model": "sst2"}', 422, "inputs[0]"),
        ("/rerank", '{"query": "", "texts": ["a"], "model": "sst2"}', 422, "model"),
        ("/", '{"inputs": "a", "parameters": {"x": 1}}', 422, "parameters"),
        ("/", '{"inputs": true}', 422, "inputs"),
        ("/tasks/sentence-similarity", '{"text": "a", "text_pair": "b", "similarity": [1]}', 422, None),
    ],
)
def test_wrong_bodies(service, path, body, status, field):
    response = service.client.post(path, content=body, headers={"Content-Type": "application/json"})
    error = response.json()
    assert response.status_code == status, error
    assert field is None or error["field"] == field


def test_large_and_slow_bodies(folders):
    with running({"sst2": folders["sst2"]}, max_body_bytes=1000, request_seconds=0.5) as service:
        assert classify(service, "a" * 2000).status_code == 413
        assert classify(service, "a" * 12_000).status_code == 413
        head = f"POST /predict HTTP/1.1\r\nHost: localhost:{service.port}\r\nContent-Length: 500\r\n\r\n{{".encode()
        for begin in (head, head[:40], b"G", b""):
            assert drip(service.port, begin).startswith(b"HTTP/1.1 408")
        assert answer_to(service.port, b"\x00\x01\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert answer_to(service.port, b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000).startswith(b"HTTP/1.1 400")


def drip(port: int, begin: bytes) -> bytes:
    """Send a byte now and then until there is a response."""
    with socket.create_connection(("127.0.0.1", port), timeout=0.1) as connection:
        connection.sendall(begin)
        for _ in range(100):
            with contextlib.suppress(TimeoutError):
                return connection.recv(1000)
            if begin:
                connection.sendall(b"a")
    raise AssertionError("no response")


def answer_to(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return connection.recv(1000)


def test_connections_are_limited(folders):
    with running({"sst2": folders["sst2"]}, max_connections=3) as service, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
        time.sleep(0.2)
        refused = answer_to(service.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 429") and b"Retry-After" in refused


def test_a_client_that_does_not_read_is_cut_off(folders, monkeypatch):
    """Its memory and its place in the queue are freed."""
    with running({"gpt2": folders["gpt2"]}, request_seconds=0.5) as service:
        monkeypatch.setattr(
            "glassformer.serve.service.completions.Completion.response", lambda *_: {"x": "y" * 100_000}
        )
        body = json.dumps(
            {"model": "gpt2", "prompt": "Once", "max_tokens": 90, "stream": True, "seed": 1, "n": 16}
        ).encode()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", service.port))
            head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            admission = service.service.models["gpt2"].admission
            while not admission.count:
                time.sleep(0.01)
            for _ in range(1000):
                if not admission.count:
                    break
                time.sleep(0.01)
            assert admission.count == 0
            assert not service.server.server_state.connections


def test_every_request_has_its_line_and_its_figures(folders):
    with running({"sst2": folders["sst2"]}) as service:
        classify(service, ["so good", "so"])
        classify(service, "so", top_q=1)
        while len(service.lines()) < 2:
            time.sleep(0.01)
        good, bad = service.lines()
        assert (good["status"], good["model"], good["inputs"], good["tokens"]) == (200, "sst2", 2, 7)
        assert {"tokenize_seconds", "queue_seconds", "compute_seconds", "seconds"} <= good.keys()
        assert bad["status"] == 422 and "top_q" in bad["error"]
        figures = service.client.get("/metrics").text
        assert 'glass_batch_tokens_sum{model="sst2"} 7.0' in figures
        assert 'glass_requests_total{route="/tasks/{task}",status="422"} 1.0' in figures
        assert "glass_queue_inputs 0.0" in figures


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_accepted_requests_are_answered_when_the_service_ends(folders, number):
    command = [sys.executable, "-m", "glassformer.cli.main", "serve", folders["gpt2"], "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = json.loads(process.stdout.readline())["address"]
        outcomes = []
        clients = [threading.Thread(target=request_until_refused, args=(address, outcomes)) for _ in range(6)]
        for each in clients:
            each.start()
        while len(outcomes) < 6:
            time.sleep(0.01)
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        for each in clients:
            each.join(30)
        assert {*outcomes} <= {200, "refused"}
        statuses = [json.loads(line)["status"] for line in out.splitlines()]  # of all requests that were accepted
        assert statuses == [200] * outcomes.count(200)
    finally:
        process.kill()


def request_until_refused(address: str, outcomes: list) -> None:
    body = {"model": "gpt2", "prompt": "Once upon a time", "max_tokens": 40, "temperature": 0}
    while True:
        try:
            outcomes.append(httpx.post(address + "v1/completions", json=body, timeout=30).status_code)
        except (httpx.ConnectError, httpx.RemoteProtocolError):  # the second: still in the queue of the closed socket
            outcomes.append("refused")
            return
        except httpx.HTTPError as error:
            outcomes.append(repr(error))
            return


def test_threads_of_torch_are_kept(folders):
    with running({"sst2": folders["sst2"]}) as service:
        before = torch.get_num_threads()
        service.post("/tasks/text-classification", {"inputs": TEXTS * 5})
        assert torch.get_num_threads() == before


def test_responses_are_sent_at_once():
    """asyncio switches Nagle's algorithm off only for sockets that name their protocol; it cost 40 ms a response."""
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
