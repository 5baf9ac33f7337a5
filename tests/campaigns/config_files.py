"""Damaged and hostile JSON files of checkpoints: of models, generation, adapters, sentence encoders and runs."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

import glassformer
from glassformer import LoraConfig, PreTrainedModel, SentenceEncoder, add_lora, pipeline
from glassformer.errors import GlassformerError
from glassformer.tasks.sentences.pooling import Dense, Pooling
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from ..models.architectures import ARCHITECTURES, OF_PICTURES
from ..models.encoder_decoders import ENCODER_DECODERS, OF_SOUND
from .case import Case
from .json_mutations import damage, mutate
from .small_models import small_classifier

NAME = "config files"
COMMON = [
    *("model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"),
    *("id2label", "label2id", "num_labels", "problem_type", "pruned_heads", "hidden_act", "layer_norm_eps", "dtype"),
    *("torch_dtype", "tie_word_embeddings", "is_decoder", "add_cross_attention", "task_specific_params", "auto_map"),
    *("pad_token_id", "eos_token_id", "max_position_embeddings", "position_embedding_type", "crf", "n_layer", "r"),
    *("lora_alpha", "target_modules", "modules_to_save", "base_model_name_or_path", "max_seq_length", "prompts"),
    *("pooling_mode", "in_features", "activation_function", "max_new_tokens", "top_k", "num_beams", "random", "data"),
]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    loads = made(folder)
    while True:
        kind = rng.choice(sorted(loads))
        names, load = loads[kind]
        name = rng.choice(names)
        path = folder / kind / name
        raw = path.read_bytes()
        if rng.random() < 0.85:
            value, done = mutate(rng, json.loads(raw), COMMON)
            content = json.dumps(value).encode("utf-8", "surrogatepass")
        else:
            content, done = damage(rng, raw)
        run = partial(replaced, folder / kind, folder / "changed", name, content, load)
        yield Case(f"{kind}, {name}: {done}", run, (GlassformerError,), forked=True, seconds=60, megabytes=1500)


def made(folder: Path) -> dict[str, tuple[list[str], Callable[[Path], Any]]]:
    """A checkpoint of each kind: its JSON files, and what is done with it."""
    torch.manual_seed(0)
    small_classifier(folder / "classifier")
    loads = {
        each.model_type: (each.decoder or each.body, each.tiny(**(each.decoder_fields or {})))
        for each in (*ARCHITECTURES, *OF_PICTURES)
    }
    loads |= {each.model_type: (each.model, each.tiny()) for each in (*ENCODER_DECODERS, *OF_SOUND)}
    for name, (kind, config) in loads.items():
        kind(config).save_pretrained(folder / name)
    model = glassformer.BertForSequenceClassification.from_pretrained(folder / "classifier")
    add_lora(model, LoraConfig(r=2, modules_to_save=["classifier"]))
    model.save_pretrained(folder / "adapter")
    body = glassformer.BertModel.from_pretrained(folder / "classifier")
    tokenizer = glassformer.BertTokenizer.from_pretrained(folder / "classifier")
    SentenceEncoder(body, tokenizer, [Pooling("mean"), Dense(8, 4)]).save_pretrained(folder / "sentences")
    train(folder / "classifier", folder / "run", 1, resume=False)
    (folder / "run" / "checkpoint").mkdir()
    shutil.copytree(folder / "run" / "checkpoint-1", folder / "run" / "checkpoint", dirs_exist_ok=True)
    files = ["config.json", "generation_config.json"]
    return {
        **{
            name: ([file for file in files if (folder / name / file).exists()], partial(use, loads[name][0]))
            for name in loads
        },
        "classifier": (["config.json"], classify),
        "adapter": (["adapter_config.json", "config.json"], classify_with_adapter),
        "sentences": (SENTENCE_FILES, encode),
        "run": (["checkpoint/training_state.json", "checkpoint/config.json"], resume),
    }


SENTENCE_FILES = [
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    *("1_Pooling/config.json", "2_Dense/config.json"),
]


def replaced(original: Path, copy: Path, name: str, content: bytes, load: Callable[[Path], Any]) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    if original.name == "adapter":  # it names its base by a path
        assert (original.parent / "classifier").is_dir()
    (copy / name).write_bytes(content)
    load(copy)


def classify(folder: Path) -> None:
    run = pipeline("text-classification", model=folder)
    first = run("low new")
    run.save_pretrained(folder / "again")
    again = pipeline("text-classification", model=folder / "again")("low new")
    assert again == first, f"saved and loaded again it answers {again} instead of {first}"


def classify_with_adapter(folder: Path) -> None:
    model = glassformer.AutoModelForSequenceClassification.from_pretrained(folder)
    model(torch.tensor([[2, 5, 3]]))
    model.save_pretrained(folder / "again")


def use(kind: type[PreTrainedModel], folder: Path) -> None:
    """Load a model by its configuration and by its class, let it read or write, and save it."""
    body = glassformer.AutoModel.from_pretrained(folder)
    repr(body.config)
    source = torch.tensor([[2, 5, 3]])
    if getattr(body, "feature_inputs", ()):
        source = torch.rand(1, 3, 16, 16)
    elif body.config.model_type == "whisper":
        source = torch.rand(1, 8, 24)
    body(source, **({"decoder_input_ids": torch.tensor([[2, 5]])} if body.config.is_encoder_decoder else {}))
    model = kind.from_pretrained(folder)
    if hasattr(model, "generate"):
        model.generate(source, max_new_tokens=2)
    model.save_pretrained(folder / "again")
    again = kind.from_pretrained(folder / "again")
    assert all(value.equal(again.state_dict()[name]) for name, value in model.state_dict().items())


def encode(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(folder)
    first = encoder.encode(["low new", "high"])
    encoder.save_pretrained(folder / "again")
    again = SentenceEncoder.from_pretrained(folder / "again").encode(["low new", "high"])
    assert (abs(first - again) < 1e-5).all(), "saved and loaded again it gives other vectors"


def train(model: Path, run: Path, steps: int, resume: bool | Path) -> None:
    rows = [{"text": "low new", "label": "good"}, {"text": "high", "label": "bad"}]
    task = pipeline("text-classification", model=model).worker
    settings = TrainSettings(
        output_dir=str(run), max_steps=steps, tokens_per_batch=8, save_steps=1, report=False, logging_steps=1000
    )
    Trainer(task, rows, None, settings).train(resume=resume)


def resume(run: Path) -> None:
    train(run.parent / "classifier", run / "on", 2, resume=run / "checkpoint")
