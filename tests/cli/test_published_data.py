"""Data sets in the layout in which they are published, through training, evaluation and prediction."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from glassformer.cli.main import main

SHAPE = [f"--config.{name}" for name in ("hidden_size=16", "num_hidden_layers=1", "num_attention_heads=2")]
SHAPE += ["--config.intermediate_size=32", "--vocabulary.vocab_size=120", "--learning-rate=1e-2", "--max-steps=20"]
NEW = ["--model=new:bert", "--tokenizer=new:wordpiece", *SHAPE]


def answers(name):
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_a_folder_per_class(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for label, words in (("neg", "dull bad awful"), ("pos", "fine good great")):
        for number, word in enumerate(words.split()):
            path = Path("train", label, f"{number}_{'29'[label == 'pos']}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"a {word} film")
    assert main(["train", "text-classification", *NEW, "--data=train", "--output-dir=run"]) == 0
    assert main(["evaluate", "text-classification", "run", "--data=train"]) == 0
    assert "train/neg/0_2.txt" in capsys.readouterr().out
    assert main(["predict", "text-classification", "run", "--input=train", "-o", "out.jsonl"]) == 0
    found = answers("out.jsonl")
    assert [one["id"] for one in found][::3] == ["train/neg/0_2.txt", "train/pos/0_9.txt"]
    assert [one["answer"]["label"] for one in found] == ["neg"] * 3 + ["pos"] * 3


def test_swag(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["", "video-id", "sent1", "sent2", "ending0", "ending1", "ending2", "label"]
    with open("swag.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for number in range(9):
            endings = ["melts.", "melts.", "melts."]
            endings[number % 3] = "eats."
            writer.writerow([number, "v", "She is hungry.", "She", *endings, number % 3])
    assert main(["train", "multiple-choice", *NEW, "--data=swag.csv", "--output-dir=run"]) == 0
    assert main(["predict", "multiple-choice", "run", "--input=swag.csv", "-o", "out.jsonl"]) == 0
    assert [one["answer"]["answer"] for one in answers("out.jsonl")] == ["She eats."] * 9
