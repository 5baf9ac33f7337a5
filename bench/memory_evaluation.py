"""What each further word of a long text costs a Transformer-XL: with its memory, and re-reading the context for it.

    python bench/memory_evaluation.py [--memory 512 1024 2048] [--segment 128] [--rounds 3]
        [--peer .peers/transformers4] [--json FILE]

The model has 6 layers x 384 and 33,278 words with an adaptive softmax, and random weights: only the time matters. With
memory, a text is read in segments behind as many remembered tokens as --memory says, and every word of a segment is
judged. Without, each word is judged by reading so many tokens again (a model without a memory must, to judge every word
with as much context). Segments and words alternate within a round; the figures are medians over the rounds of the
processor time of one thread per word. "whole" is the largest difference between the hidden states of a text that was
read in segments and in one pass. With --peer, transformers 4.30.2 in that folder reads the same segments with the same
weights, in a process of its own in each round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

WORDS = 33_278
PEER = """
import sys, time, json, torch
torch.set_num_threads(1)
from transformers import TransfoXLLMHeadModel
folder, segment = sys.argv[1], int(sys.argv[2])
model = TransfoXLLMHeadModel.from_pretrained(folder).eval()
ids = torch.load(folder + "/ids.pt")
mems, times, losses = None, [], []
with torch.no_grad():
    for start in range(0, ids.shape[1] - 1, segment):
        part = ids[:, start : start + segment + 1]
        began = time.process_time()
        hidden = model.transformer(part[:, :-1], mems=mems)
        mems = hidden.mems
        rows = torch.cat((hidden.last_hidden_state, hidden.last_hidden_state[:, -1:]), 1)  # the last label is shifted
        losses.append(model.crit(rows, part).sum().item())
        times.append(time.process_time() - began)
print(json.dumps({"seconds": sorted(times)[len(times) // 2] / segment, "loss": sum(losses)}))
"""


def make_model(memory: int):
    from glassformer import TransfoXLConfig, TransfoXLLMHeadModel

    torch.manual_seed(0)
    shape = {"hidden_size": 384, "embedding_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "d_head": 64}
    shape |= {"intermediate_size": 1536, "cutoffs": [8000, 20_000], "div_val": 2}
    config = TransfoXLConfig(vocab_size=WORDS, **shape, mem_len=memory, clamp_len=memory)
    return TransfoXLLMHeadModel(config).eval()


@torch.no_grad()
def read_segments(model, ids: torch.Tensor, segment: int) -> tuple[float, float, torch.Tensor]:
    """Seconds a word of a segment behind a full memory (the median), the summed loss, and the states of the text."""
    mems, times, states, loss = None, [], [], 0.0
    for start in range(0, ids.shape[1] - 1, segment):
        part = ids[:, start : start + segment + 1]
        began = time.process_time()
        body = model.transformer.encode(part[:, :-1], mems=mems)
        mems = body.past_key_values
        loss += float(model.word_losses(body.rows, part[0, 1:]).sum())
        times.append(time.process_time() - began)
        states.append(body.rows)
    return statistics.median(times) / segment, loss, torch.cat(states)


@torch.no_grad()
def read_again(model, ids: torch.Tensor, context: int, words: int) -> float:
    """Seconds a word, if so many tokens are read again for each."""
    times = []
    for last in range(context, context + words):
        began = time.process_time()
        body = model.transformer.encode(ids[:, last - context : last], mem_len=0)
        model.word_losses(body.rows[-1:], ids[0, last : last + 1])
        times.append(time.process_time() - began)
    return statistics.median(times)


def ask_peer(peer: Path, model, ids: torch.Tensor, segment: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        torch.save(ids, f"{folder}/ids.pt")
        environment = {**os.environ, "PYTHONPATH": str(peer), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-c", PEER, folder, str(segment)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


def measure(memory: int, segment: int, rounds: int, words: int, peer: Path | None) -> dict[str, float]:
    model = make_model(memory)
    ids = torch.randint(0, WORDS, (1, memory + 4 * segment + 1), generator=torch.Generator().manual_seed(1))
    found: dict[str, list[float]] = {"with memory": [], "read again": [], "transformers": []}
    for _ in range(rounds):
        seconds, loss, states = read_segments(model, ids, segment)
        found["with memory"].append(seconds)
        found["read again"].append(read_again(model, ids, memory, words))
        if peer is not None:
            theirs = ask_peer(peer, model, ids, segment)
            found["transformers"].append(theirs["seconds"])
            assert abs(theirs["loss"] / loss - 1) < 1e-4, (theirs, loss)
    with torch.no_grad():
        whole = model.transformer.encode(ids[:, :-1], use_mems=False).rows
    times = {name: 1000 * statistics.median(each) for name, each in found.items() if each}
    return {
        "memory": memory,
        **{f"{name}, ms a word": round(each, 4) for name, each in times.items()},
        "times faster": round(times["read again"] / times["with memory"], 1),
        "whole": float((whole - states).abs().max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--segment", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, default=3, help="words for which the context is read again, in a round")
    parser.add_argument("--peer", type=Path, help="the folder of transformers 4.30.2")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for memory in arguments.memory:
        results.append(measure(memory, arguments.segment, arguments.rounds, arguments.words, arguments.peer))
        print(results[-1], flush=True)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
