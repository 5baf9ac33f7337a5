"""The local server: allowed hosts, served files, and how invalid requests are refused."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from glassformer.serve.explorer import PAGE
from glassformer.serve.local_server import MAX_REQUEST_BYTES, LocalServer, files_of


def send(address: str, method: str, path: str, body: bytes | str | None = None, **headers: str):
    """(status, headers, body)"""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def post(address: str, name: str, value: object, **headers: str):
    return send(address, "POST", f"/api/{name}", json.dumps(value), **{"Content_Type": "application/json", **headers})


def test_the_page_and_its_policy(explorer):
    _, address = explorer
    code, headers, body = send(address, "GET", "/")
    assert code == 200
    assert b"explorer.js" in body
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/explorer.js", "/head_view.js", "/style.css", "/explorer.css"])
def test_every_module_is_served(explorer, path):
    code, headers, _ = send(explorer[1], "GET", path)
    assert code == 200
    assert headers["Content-Type"].startswith("text/")


@pytest.mark.parametrize(
    "path",
    "/../local.py /..%2flocal.py /%2e%2e/%2e%2e/errors.py //etc/passwd /page/../../errors.py /x.js /. /index.html/.. "
    "/api/read /explorer.py".split(),
)
def test_no_other_file_is_served(explorer, path):
    assert send(explorer[1], "GET", path)[0] == 404


def test_other_hosts_and_origins_are_refused(explorer):
    address = explorer[1]
    own = urlsplit(address).netloc
    assert send(address, "GET", "/", Host="evil.example")[0] == 403
    assert send(address, "GET", "/", Host=f"evil.example:{own.split(':')[1]}")[0] == 403
    assert post(address, "model", {}, Origin="http://evil.example")[0] == 403
    assert post(address, "model", {}, Origin="null")[0] == 403
    assert post(address, "model", {}, Origin=f"http://{own}")[0] == 200
    assert post(address, "model", {}, Host=f"localhost:{own.split(':')[1]}")[0] == 200


def test_it_listens_on_the_loopback_address_only(explorer):
    assert urlsplit(explorer[1]).hostname == "127.0.0.1"


def test_invalid_requests_are_refused(explorer):
    address = explorer[1]
    as_json = {"Content_Type": "application/json"}
    assert send(address, "POST", "/api/model", "{}", Content_Type="text/plain")[0] == 415
    number = f'{{"reading": {"9" * 5000}}}'
    for body in ("{", "[]", "\xff", "[" * 100_000, '{"text": 1}', number):
        code, _, message = send(address, "POST", "/api/read", body.encode("latin1"), **as_json)
        assert (code, "error" in json.loads(message)) == (400, True), body[:20]
    assert send(address, "POST", "/api/nothing", "{}", **as_json)[0] == 404
    assert send(address, "PUT", "/", "x")[0] == 405
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length=str(MAX_REQUEST_BYTES + 1))[0] == 413
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length="-1")[0] == 411
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length="9" * 5000)[0] == 413
    assert send(address, "POST", "/api/read", None, **as_json, Content_Length="x")[0] == 411


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("head", {"reading": 1, "layer": 99, "head": 0}, "layers 0 to 2"),
        ("head", {"reading": 1, "layer": 0, "head": 99}, "heads 0 to 3"),
        ("head", {"reading": 99, "layer": 0, "head": 0}, "read it again"),
        ("head", {"reading": True, "layer": 0, "head": 0}, "whole number"),
        ("predict", {"reading": 1, "position": 999}, "positions 0 to"),
        ("predict", {"reading": 1, "temperature": 0}, "temperature must be"),
        ("predict", {"reading": 1, "temperature": float("nan")}, "temperature must be"),
        ("attribute", {"reading": 1, "method": "salience"}, "did you mean 'saliency'"),
        ("change", {"reading": 1, "heads": {"0": [1]}}, "factors of heads"),
        ("change", {"reading": 1, "skip": [7]}, "layers 0 to 2"),
        ("change", {"reading": 1, "source": "so good", "layer": 0}, "name the places"),
        ("tokens", {"text": "so " * 50_000}, "at most 100000 characters"),
        ("read", {"text": "so " * 500}, "has 502 tokens, and this model reads at most 64"),
        ("read", {"text": "so", "model": 7}, "model must be between"),
        ("generate", {"text": "so"}, "cannot generate text"),
        ("lens", {"reading": 1, "positions": ["x"]}, "list of"),
        ("lens", {"reading": 1, "positions": [10**4000]}, "positions 0 to"),
        ("head", {"reading": 10**4000, "layer": 0, "head": 0}, "read it again"),
        ("change", {"reading": 1, "heads": {"0": {"0": 10**400}}}, "factors of heads"),
    ],
)
def test_invalid_values_are_reported(explorer, name, fields, message):
    if fields.get("reading") is not True and fields.get("reading") == 1:
        fields = {**fields, "reading": json.loads(post(explorer[1], "read", {"text": "the cat sat"})[2])["reading"]}
    code, _, body = post(explorer[1], name, fields)
    assert code == 400
    assert message in json.loads(body)["error"]


def test_seeds_have_at_most_64_bits(generator):
    fields = {"text": "Once", "steps": 1, "sample": True}
    assert post(generator[1], "generate", {**fields, "seed": 2**64 - 1})[0] == 200
    for seed in (2**64, 10**4000):
        code, _, body = post(generator[1], "generate", {**fields, "seed": seed})
        assert (code, "seed must be between" in body.decode()) == (400, True)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\x00\x01\x02\r\n\r\n", b"400"),
        (b"GET\r\n\r\n", b"400"),
        (b"\r\nGET / HTTP/1.1\r\n\r\n", b"400"),
        (b"PUT /\r\n\r\n", b"400"),
        (b"GET / HTTP/0.9\r\n\r\n", b"403"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n", b"431"),
        (b"GET " + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_malformed_http_gets_a_status_line(explorer, request_, code):
    assert answer_to(explorer[1], request_).startswith(b"HTTP/1.1 " + code)


def answer_to(address: str, request: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    place = urlsplit(address)
    received = b""
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(request)
        while more := connection.recv(65536):
            received += more
    return received


@contextlib.contextmanager
def serving(endpoints=(), **settings):
    server = LocalServer(files_of(PAGE), dict(endpoints))
    for name, value in settings.items():
        setattr(server, name, value)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_every_connection_beyond_the_limit_is_answered():
    """None is closed without a response, and those that may not wait are told when to come back."""

    def slow(request):
        time.sleep(0.05)
        return {}

    with serving({"/api/slow": slow}, max_connections=8) as server:
        with ThreadPoolExecutor(120) as pool:
            answers = list(pool.map(lambda _: post(server.address, "slow", {}), range(240)))
        assert {code for code, _, _ in answers} == {200, 429}
        for code, headers, body in answers:
            assert code == 200 or (int(headers["Retry-After"]) > 0 and "try again" in json.loads(body)["error"])
        assert send(server.address, "GET", "/")[0] == 200


def test_a_refused_client_reads_its_response_even_if_it_sends_more():
    with serving(max_connections=0) as server:
        body = b"x" * 3_000_000
        head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        for _ in range(5):
            assert answer_to(server.address, head + body).startswith(b"HTTP/1.1 429")


@pytest.mark.parametrize("begin", [b"GET / HT", b"POST /api/x HTTP/1.1\r\nHost: ", b"body"])
def test_the_time_of_a_whole_request_is_limited(begin):
    """A client that sends a byte now and then is not silent, and is refused all the same."""
    with serving({"/api/x": lambda request: {}}, request_seconds=0.5) as server:
        place = urlsplit(server.address)
        if begin == b"body":
            begin = f"POST /api/x HTTP/1.1\r\nHost: {place.netloc}\r\n".encode()
            begin += b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        with socket.create_connection((place.hostname, place.port), timeout=0.1) as connection:
            connection.sendall(begin)
            started, received = time.monotonic(), b""
            while not received:
                assert time.monotonic() - started < 10
                connection.sendall(b" ")
                with contextlib.suppress(TimeoutError):
                    received = connection.recv(1000)
        assert received.startswith(b"HTTP/1.1 408")


def test_requests_that_wait_when_the_server_ends_are_refused_and_the_running_one_is_answered():
    running, finish, answers = threading.Event(), threading.Event(), []

    def slow(request):
        running.set()
        finish.wait(20)
        return {"done": True}

    with serving({"/api/slow": slow}) as server:
        clients = [
            threading.Thread(target=lambda: answers.append(post(server.address, "slow", {})[0])) for _ in range(6)
        ]
        for each in clients:
            each.start()
        running.wait(20)
        while len(server.connections) < 6:
            time.sleep(0.01)
        threading.Timer(0.2, finish.set).start()
        server.shutdown()
        server.server_close()
        for each in clients:
            each.join(20)
        assert sorted(answers) == [200, 503, 503, 503, 503, 503]
        assert not server.connections


def test_a_connection_without_a_request_yet_is_answered_when_the_server_ends():
    with serving() as server:
        place = urlsplit(server.address)
        with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
            while not server.connections:
                time.sleep(0.01)
            server.shutdown()
            server.server_close()
            assert connection.recv(1000).startswith(b"HTTP/1.1 503")  # what it was about to ask would have no answer


def test_a_fault_of_ours_is_reported_in_the_terminal(caplog):
    with serving({"/api/fault": lambda request: 1 // 0}) as server:
        code, _, body = post(server.address, "fault", {})
    assert (code, "terminal" in json.loads(body)["error"]) == (500, True)
    assert "/api/fault failed: ZeroDivisionError" in caplog.text and "Traceback" in caplog.text


@pytest.mark.parametrize(
    "headers", ["Content-Length: 2\r\nContent-Length: 3", "Transfer-Encoding: chunked", "Content-Length: +2"]
)
def test_a_body_of_unclear_length_is_refused(explorer, headers):
    host = urlsplit(explorer[1]).netloc
    request = f"POST /api/model HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}\r\n\r\n{{}}"
    assert answer_to(explorer[1], request.encode()).startswith(b"HTTP/1.1 411")


def test_numbers_that_are_not_finite_are_reported():
    """The connection does not end without a response."""
    with serving({"/api/nan": lambda request: {"value": float("nan")}}) as server:
        code, _, body = post(server.address, "nan", {})
    assert (code, "not finite" in body.decode()) == (400, True)


@pytest.mark.skipif(os.name == "nt", reason="Windows would let two servers share a port")
def test_a_port_can_be_reused_at_once():
    """Restarting the explorer on the same port need not wait for a timeout."""
    server = LocalServer(files_of(PAGE), {})
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as waiting:
        waiting.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        while waiting.recv(65536):  # the server ends the connection
            pass
    server.shutdown()
    server.server_close()
    LocalServer({}, {}, port).server_close()


@pytest.mark.parametrize(
    "headers", ["Content-Type: text/plain\r\nContent-Length: 18", "Content-Type: application/json"]
)
def test_an_unread_body_is_not_parsed_as_another_request(explorer, headers):
    host = urlsplit(explorer[1]).netloc
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1])), timeout=20) as line:
        line.sendall(f"POST /api/model HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode())
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while more := line.recv(65536):
                received += more
    assert received.count(b"HTTP/1.1 ") == 1
