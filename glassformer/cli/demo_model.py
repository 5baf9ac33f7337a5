"""What `glass demo` trains: a corpus of numbers and dates in words, and a small Transformer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..data.number_words import Pair
    from ..tasks.generation.translation import Translation

TRAINING, HELD_OUT, VALIDATION = 5000, 600, 100  # numbers and dates; the validation rows are held out too
SHAPE = {"hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 256}
STEPS = 1400
SETTINGS: dict[str, Any] = {
    "tokens_per_batch": 2048,
    "learning_rate": 2e-3,
    "adam_beta2": 0.98,
    "logging_steps": 50,
    "eval_steps": 250,
    "save_steps": 250,
    "save_total_limit": 1,
    "metric_for_best_model": "exact_match",
    "report": False,
    "device": "cpu",
}


def corpus() -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Pairs for training, for validation and for the final evaluation."""
    from ..data.number_words import number_word_pairs

    train_pairs, held_out = number_word_pairs(TRAINING, HELD_OUT)
    return train_pairs, held_out[:VALIDATION], held_out[VALIDATION:]


def write_corpus(folder: Path, train_pairs: list[Pair], test_pairs: list[Pair]) -> None:
    """Write the corpus as files, for other models to be trained on."""
    from ..checkpoints.files import make_folder, write_atomically

    texts = {
        folder / name: "source\ttarget\n" + "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        for name, pairs in (("train.tsv", train_pairs), ("test.tsv", test_pairs))
    }
    make_folder(folder)
    for path, text in texts.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise InputError(f"{path} exists and holds another corpus: give another folder, --output FOLDER")
    for path, text in texts.items():
        write_atomically(path, text)


def load_trained(folder: Path, again: bool) -> Translation | None:
    """The model of an earlier demo, unless a new one is requested."""
    from .. import Translation
    from ..train.checkpoint import checkpoints_in

    if again:
        for checkpoint in checkpoints_in(folder).values():
            shutil.rmtree(checkpoint)
        (folder / "model.safetensors").unlink(missing_ok=True)
        return None
    if not (folder / "model.safetensors").is_file():
        return None
    return Translation.from_pretrained(folder)


def train(
    folder: Path, train_pairs: list[Pair], validation_pairs: list[Pair], steps: int, report: Callable[..., None]
) -> Translation:
    """Train a new model on pairs; `report` receives lines to print."""
    import torch

    from .. import BertTokenizer, Trainer, TrainSettings, TransformerConfig, TransformerForSeq2SeqLM, Translation

    report(f"1. A corpus: {len(train_pairs):,} pairs of numbers and dates in words, made here")
    for pair in (train_pairs[1], train_pairs[-4], train_pairs[-1]):
        report(f"  {pair.source}  ->  {pair.target}")
    texts = sorted({text for pair in train_pairs for text in pair[:2]})
    tokenizer = BertTokenizer.train(iter(texts), vocab_size=400, min_frequency=1)
    report("", f"2. A vocabulary of {len(tokenizer.vocab)} tokens, made from it")
    for text in train_pairs[-4][:2]:
        report(f"  {text}  ->  {' | '.join(tokenizer.tokenize(text))}")
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=len(tokenizer.vocab),
        **SHAPE,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=64,
        norm_first=True,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = TransformerForSeq2SeqLM(config)
    task = Translation(model, tokenizer, bleu_tokenize="zh")
    layers = f"{config.num_hidden_layers} layers each in encoder and decoder, {config.num_attention_heads} heads"
    report("", f"3. A Transformer of {model.num_parameters():,} parameters ({layers}) learns them")
    settings = TrainSettings(output_dir=str(folder), max_steps=steps, warmup_steps=min(100, steps), **SETTINGS)
    trainer = Trainer(task, rows_of(train_pairs), rows_of(validation_pairs), settings)
    result = trainer.train(resume=True)
    if result.stopped_by is not None:
        raise InputError(f"stopped at step {result.step:,} of {result.total_steps:,}; the same command continues")
    return task


def rows_of(pairs: list[Pair]) -> list[dict[str, str]]:
    return [{"source": pair.source, "target": pair.target} for pair in pairs]


def evaluate(task: Translation, pairs: list[Pair]) -> float:
    """The share of pairs that are translated exactly."""
    from ..tasks.inference import answers
    from ..tasks.metrics import exact_match

    translations = answers(task, [pair.source for pair in pairs], finish=task.predict)
    return exact_match(list(translations), [pair.target for pair in pairs])["exact_match"]
