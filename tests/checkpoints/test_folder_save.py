"""Saving over an existing folder is one step: weights, config and tokenizer change together, or nothing does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from glassformer import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    GPT2LMHeadModel,
    pipeline,
)
from glassformer.checkpoints.folder_save import COMPLETE, finish_save, saved_together
from glassformer.errors import CheckpointError, DamagedFileError
from glassformer.tasks.pipeline import Pipeline
from tests.checkpoints.killed import dies_at
from tests.train.small import gpt2

SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK]".split()


def classifier(folder: Path, *labels: str, words: str, seed: int) -> Pipeline:
    """A pipeline whose weights, labels and vocabulary are all its own."""
    torch.manual_seed(seed)
    vocab = {word: i for i, word in enumerate([*SPECIAL, *words.split()])}
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=len(vocab), **shape, id2label=dict(enumerate(labels)))
    BertForSequenceClassification(config).save_pretrained(folder)
    made = BertTokenizer(vocab=vocab)
    if "added" in words:
        made.add_tokens(["Q7"])
    made.save_pretrained(folder)
    return pipeline("text-classification", model=folder)


def what_is_in(folder: Path) -> tuple:
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    return tuple(model.config.id2label.values()), model.classifier.weight.flatten().tolist(), tokenizer.get_vocab()


@pytest.mark.parametrize("size, step", [("5GB", 1), (600, 5)])
def test_killed_at_any_moment_a_folder_holds_one_model_with_its_labels_and_words(tmp_path, size, step):
    old = classifier(tmp_path / "old", "good", "bad", words="low new added", seed=1)
    new = classifier(tmp_path / "new", "yes", "no", "maybe", words="high", seed=2)
    before, after, seen = what_is_in(tmp_path / "old"), what_is_in(tmp_path / "new"), []

    def save() -> None:
        with saved_together(folder) as staged:
            new.model.save_pretrained(staged, max_shard_size=size)
            new.worker.save_processor(staged)

    for moment in range(0, 1000, step):
        folder = tmp_path / str(moment)
        old.save_pretrained(folder)
        (folder / "notes.txt").write_text("mine")
        died = dies_at(moment, save)
        seen.append(what_is_in(folder))
        assert seen[-1] in (before, after), moment
        assert (folder / "notes.txt").read_text() == "mine"
        if not died:
            break
        assert {name for name in os.listdir(folder) if name == COMPLETE} == set()
    assert moment > 10 and seen[0] == before and seen[-1] == after
    assert seen == sorted(seen, key=lambda each: each == after)  # old, old, ..., then new for good
    new.save_pretrained(folder)
    assert sorted(os.listdir(folder)) == sorted([*os.listdir(tmp_path / "new"), "notes.txt"])


def test_a_save_that_fails_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    old = classifier(tmp_path, "good", "bad", words="low", seed=1)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(type(old.worker), "save_processor", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        old.save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CheckpointError, match=r"could not write .*config\.json: there is a folder of this name"):
        old.model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert not [name for name in os.listdir(tmp_path) if "glassformer" in name]


def test_files_that_a_new_set_replaces_go_and_others_stay(tmp_path):
    classifier(tmp_path, "good", "bad", words="low added", seed=1)
    assert (tmp_path / "added_tokens.json").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.safetensors").write_text("a file of the user")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    BertTokenizer(vocab={word: i for i, word in enumerate([*SPECIAL, "high"])}).save_pretrained(tmp_path)
    assert len(AutoTokenizer.from_pretrained(tmp_path)) == 6  # the token that was added to the old one is gone
    model.save_pretrained(tmp_path, safe_serialization=False)
    assert not (tmp_path / "model.safetensors").exists()
    assert (tmp_path / "mine" / "model.safetensors").read_text() == "a file of the user"


def test_the_settings_of_generation_change_with_the_model(tmp_path):
    model = GPT2LMHeadModel(gpt2())
    model.generation_config.max_new_tokens = 3
    model.save_pretrained(tmp_path)
    model.generation_config.max_new_tokens = 4
    moments = 0
    while dies_at(moments, lambda: model.save_pretrained(tmp_path)):
        held = GPT2LMHeadModel.from_pretrained(tmp_path).generation_config.max_new_tokens
        assert held in (3, 4)
        moments += 1
    assert moments > 5
    assert GPT2LMHeadModel.from_pretrained(tmp_path).generation_config.max_new_tokens == 4


def test_a_hostile_save_moves_and_removes_nothing_outside(tmp_path):
    folder, home = tmp_path / "checkpoint", tmp_path / "home"
    saved = folder / COMPLETE
    (saved / "sub").mkdir(parents=True), home.mkdir()
    (home / "kept.txt").write_text("kept")
    (folder / "sub").symlink_to(home)
    (saved / "sub" / "keys").write_text("a stranger's")
    contents = {"replaced": ["../home/kept.txt", str(home / "kept.txt"), 3]}
    (saved / "contents.json").write_text(json.dumps(contents))
    with pytest.raises(DamagedFileError, match="outside of"):
        finish_save(folder)
    assert os.listdir(home) == ["kept.txt"]
    (saved / "contents.json").write_text("[")
    with pytest.raises(DamagedFileError, match="not valid JSON"):
        AutoTokenizer.from_pretrained(folder)


def test_two_processes_may_finish_one_save(tmp_path):
    for step in range(5):
        with saved_together(tmp_path) as staged:
            (staged / "a.json").write_text(str(step))
        children = []
        os.mkdir(tmp_path / COMPLETE)
        for name, text in (("a.json", "new"), ("b.json", "new"), ("contents.json", '{"replaced": []}')):
            (tmp_path / COMPLETE / name).write_text(text)
        for _ in range(3):
            child = os.fork()
            if child == 0:
                try:
                    finish_save(tmp_path)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        assert sorted(os.listdir(tmp_path)) == ["a.json", "b.json"]
        assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text() == "new"
