"""How fast a translator trains and generates, beside the same Transformer built from torch.nn.Transformer.

    python bench/translate.py [--rounds 3] [--steps 6] [--sentences 32] [--before CHECKOUT] [--json FILE]

Both have the shape of recipes/multi30k.toml and the same weights, so that their first losses and all their
translations are equal, which is checked. Pairs have natural lengths (log-normal, median 14, log-sd 0.35, up to 40
tokens; the target is about as long as its source); batches are 128 pairs as they come, padded. Training: forward, loss
over real tokens, backward, clipping, AdamW; a result counts real tokens of source and target. Generation: beam
search with 5 beams and 30 new tokens; the peer encodes once and decodes the full prefix at each step, as plain
implementations do. Engines are processes of their own, and rounds alternate; results are medians.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from workers import BEFORE, Worker

THREADS = 2
ROWS, BEAMS, NEW = 128, 5, 30
START, END, IGNORED = 1, 2, -100
SHAPE = {
    "vocab_size": 8000,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 1024,
    "max_position_embeddings": 128,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "norm_first": True,
}


def make_pairs(count: int, seed: int) -> list[tuple[list[int], list[int]]]:
    rng = random.Random(seed)

    def words(median: float, spread: float) -> list[int]:
        length = min(40, max(3, round(rng.lognormvariate(math.log(median), spread))))
        return [rng.randrange(3, SHAPE["vocab_size"]) for _ in range(length)]

    sources = [words(14, 0.35) for _ in range(count)]
    return [(source, [*words(len(source), 0.15), END]) for source in sources]


def padded(rows: list[list[int]], filler: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [filler] * (width - len(row)) for row in rows])


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, decoder inputs and labels."""
    sources, targets = map(list, zip(*pairs, strict=True))
    return padded(sources, 0), padded([[START, *row[:-1]] for row in targets], 0), padded(targets, IGNORED)


def make_training_step(model: nn.Module, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def training_step(pairs) -> float:
        loss = loss_of(*batch_of(pairs))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return training_step


def load_ours(folder: str):
    torch.set_num_threads(THREADS)
    from glassformer import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(folder)

    def loss_of(source: Tensor, prefix: Tensor, labels: Tensor) -> Tensor:
        body = model.read_pair(source, source != 0, prefix, labels != IGNORED)
        return F.cross_entropy(model.word_logits(body.rows), body.layout.pack(labels))

    def generate(sources: list[list[int]]) -> list[list[int]]:
        ids = padded(sources, 0)
        settings = {"num_beams": BEAMS, "max_new_tokens": NEW, "suppress_tokens": [END]}
        return model.generate(ids, attention_mask=(ids != 0).long(), **settings)[:, 1:].tolist()

    return make_worker(model, make_training_step(model, loss_of), generate)


def make_worker(model: nn.Module, training_step, generate):
    def work(what: str, inputs):
        model.train(what == "learn")
        if what == "learn":
            return training_step(inputs)
        with torch.no_grad():
            return generate(inputs)

    return work


class TorchTransformer(nn.Module):
    """A translator from torch.nn.Transformer, as in tutorials."""

    def __init__(self, positions: Tensor):
        super().__init__()
        size, layers = SHAPE["hidden_size"], SHAPE["num_hidden_layers"]
        self.words = nn.Embedding(SHAPE["vocab_size"], size)
        self.register_buffer("positions", positions)
        heads, wide = SHAPE["num_attention_heads"], SHAPE["intermediate_size"]
        self.body = nn.Transformer(size, heads, layers, layers, wide, 0.0, batch_first=True, norm_first=True)

    def embed(self, ids: Tensor) -> Tensor:
        return self.words(ids) * math.sqrt(self.words.embedding_dim) + self.positions[: ids.shape[1]]

    def decode(self, prefix: Tensor, memory: Tensor, hidden: Tensor, padding: Tensor | None) -> Tensor:
        future = torch.ones(prefix.shape[1], prefix.shape[1], dtype=torch.bool).triu(1)
        return self.body.decoder(
            self.embed(prefix),
            memory,
            future,
            tgt_key_padding_mask=padding,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        hidden = source == 0
        memory = self.body.encoder(self.embed(source), src_key_padding_mask=hidden)
        return self.decode(prefix, memory, hidden, prefix == 0) @ self.words.weight.T

    def search(self, source: Tensor) -> Tensor:
        """The best of the beams, B NEW."""
        batch, hidden = len(source), source == 0
        memory = self.body.encoder(self.embed(source), src_key_padding_mask=hidden)
        memory, hidden = memory.repeat_interleave(BEAMS, 0), hidden.repeat_interleave(BEAMS, 0)
        prefix = torch.full((batch * BEAMS, 1), START)
        totals = torch.tensor([0.0] + [-1e9] * (BEAMS - 1)).repeat(batch, 1)
        for _ in range(NEW):
            scores = self.decode(prefix, memory, hidden, None)[:, -1] @ self.words.weight.T
            log_probs = scores.log_softmax(-1)
            log_probs[:, END] = -torch.inf
            words = log_probs.shape[-1]
            totals, places = (totals[:, :, None] + log_probs.view(batch, BEAMS, words)).flatten(1).topk(BEAMS)
            parents = (torch.arange(batch)[:, None] * BEAMS + places // words).flatten()
            prefix = torch.cat((prefix[parents], (places % words).view(-1, 1)), 1)
        return prefix.view(batch, BEAMS, -1)[:, 0, 1:]


def load_torch(folder: str):
    torch.set_num_threads(THREADS)
    import warnings

    from glassformer import AutoModelForSeq2SeqLM

    warnings.filterwarnings("ignore")
    ours = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model = TorchTransformer(ours.encoder.embeddings.pos_encoding.pe[0])
    copy_weights(ours, model)

    def loss_of(source: Tensor, prefix: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model(source, prefix).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)

    step = make_training_step(model, loss_of)
    return make_worker(model, step, lambda sources: model.search(padded(sources, 0)).tolist())


@torch.no_grad()
def copy_weights(ours, plain: TorchTransformer) -> None:
    def copy(attention, theirs: nn.MultiheadAttention) -> None:
        parts = (attention.self.query, attention.self.key, attention.self.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(attention.output.dense.state_dict())

    plain.words.weight.copy_(ours.encoder.embeddings.word_embeddings.weight)
    for stack, theirs in ((ours.encoder, plain.body.encoder), (ours.decoder, plain.body.decoder)):
        theirs.norm.load_state_dict(stack.LayerNorm.state_dict())
        for mine, other in zip(stack.layer, theirs.layers, strict=True):
            copy(mine.attention, other.self_attn)
            norms = [mine.attention.LayerNorm, mine.LayerNorm]
            if hasattr(mine, "crossattention"):
                copy(mine.crossattention, other.multihead_attn)
                norms.insert(1, mine.crossattention.LayerNorm)
            for number, norm in enumerate(norms, 1):
                getattr(other, f"norm{number}").load_state_dict(norm.state_dict())
            other.linear1.load_state_dict(mine.intermediate.dense.state_dict())
            other.linear2.load_state_dict(mine.output.dense.state_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit, measured as one more engine")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from glassformer import TransformerConfig, TransformerForSeq2SeqLM

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        config = TransformerConfig(**SHAPE, bos_token_id=START, eos_token_id=END, pad_token_id=0)
        model = TransformerForSeq2SeqLM(config)
        model.save_pretrained(folder)
        print(f"{model.num_parameters():,} parameters, {THREADS} threads")
        loads = {"glassformer": load_ours, "torch.nn.Transformer": load_torch}
        workers = {name: Worker(load, folder, threads=THREADS) for name, load in loads.items()}
        if options.before:
            workers[BEFORE] = Worker(load_ours, folder, threads=THREADS, checkout=options.before)
        try:
            results = measure(workers, options)
        finally:
            for worker in workers.values():
                worker.close()
    ours = results["glassformer"]
    print(f"{'':24}{'trained tokens/s':>20}{'generated tokens/s':>20}")
    for name, result in results.items():
        print(f"{name:24}{result['learn']:>20,.0f}{result['write']:>20,.0f}")
    for name, theirs in results.items():
        if name != "glassformer":
            ratios = (ours[what] / theirs[what] for what in ("learn", "write"))
            print(f"{f'x {name}':24}" + "".join(f"{ratio:>20.2f}" for ratio in ratios))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def measure(workers: dict[str, Worker], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    sources = [source for source, _ in make_pairs(options.sentences, 99)]
    translations = {name: worker("write", sources)[1] for name, worker in workers.items()}
    same = sum(all(each == texts[0] for each in texts) for texts in zip(*translations.values(), strict=True))
    losses = {name: worker("learn", make_pairs(ROWS, 0))[1] for name, worker in workers.items()}
    listed = ", ".join(f"{loss:.5f}" for loss in losses.values())
    print(f"{same} of {len(sources)} translations are equal; first losses {listed}")
    times: dict[str, dict[str, list[float]]] = {name: {"learn": [], "write": []} for name in workers}
    for number in range(options.rounds):
        for name, worker in workers.items():
            for step in range(options.steps):
                pairs = make_pairs(ROWS, 1 + number * options.steps + step)
                tokens = sum(len(source) + len(target) for source, target in pairs)
                times[name]["learn"].append(tokens / worker("learn", pairs)[0])
            times[name]["write"].append(NEW * len(sources) / worker("write", sources)[0])
    return {name: {what: statistics.median(each) for what, each in kinds.items()} for name, kinds in times.items()}


if __name__ == "__main__":
    main()
