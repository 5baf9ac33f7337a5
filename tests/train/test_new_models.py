"""New models: their sizes by name, the size that fits the data, and the first line of a run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.models.auto import AutoConfig, AutoModel
from glassformer.train.recipes.build_trainer import build_trainer
from glassformer.train.recipes.model_sizes import count_bytes, shape_of, size_of
from glassformer.train.recipes.recipe import make_recipe
from glassformer.train.reporting.run_summary import checkpoint_bytes, describe_run

LINES = "the cat sat on the mat .\nthe dog sat on the log .\n" * 20
NARROW = ["--config.hidden_size=16", "--config.num_hidden_layers=1", "--config.num_attention_heads=2"]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(LINES)
    return tmp_path


def values(**others) -> dict:
    made = {"task": "text-generation", "model": "new:gpt2", "data": {"train": "text.txt"}}
    train = {"output_dir": "run", "max_steps": 2, "report": False}
    return {**made, "train": train, "vocabulary": {"vocab_size": 300}, "options": {"context": 16}, **others}


# Turc et al. 2019, "Well-Read Students Learn Better", table 1: layers, width, and millions of parameters.
@pytest.mark.parametrize("size, layers, width, millions", [("tiny", 2, 128, 4.4), ("mini", 4, 256, 11.3)])
def test_sizes_are_those_of_the_published_miniatures(size, layers, width, millions):
    import torch

    from glassformer import BertModel

    shape = shape_of("bert", size)
    assert (shape["num_hidden_layers"], shape["hidden_size"]) == (layers, width)
    with torch.device("meta"):
        model = BertModel(AutoConfig.for_model("bert", **shape))
    assert round(sum(each.numel() for each in model.parameters()) / 1e6, 1) == pytest.approx(millions, abs=0.15)


@pytest.mark.parametrize(
    "model", ["gpt2", "bert", "transformer", "transformer-lm", "distilbert", "openai-gpt", "rnn", "albert", "electra"]
)
def test_every_size_of_an_architecture_has_its_name(model):
    for size in ("tiny", "mini", "small", "base"):
        assert size_of(AutoConfig.for_model(model, **shape_of(model, size))) == size


@pytest.mark.parametrize("model, millions", [("albert", 11.7), ("electra", 108.9)])  # of the published base models
def test_the_base_size_is_that_of_the_paper(model, millions):
    config = AutoConfig.for_model(model, **shape_of(model, "base"))
    count = AutoModel.model_class(config).without_weights(config).num_parameters()
    assert round(count / 1e6, 1) == millions


def test_the_size_fits_the_data_unless_one_is_given(here, monkeypatch):
    def shape(**others) -> tuple[int, int]:
        config = build_trainer(make_recipe(values(**others))).task.model.config
        return config.num_hidden_layers, config.hidden_size

    assert shape() == (2, 128)
    monkeypatch.setattr("glassformer.train.recipes.model_sizes.FITS", {"tiny": len(LINES) - 41, "mini": len(LINES)})
    assert count_bytes([{"text": line} for line in LINES.splitlines()]) == len(LINES) - 40
    assert shape() == (4, 256)
    assert shape(size="tiny") == (2, 128)
    assert shape(size="tiny", config={"n_layer": 1}) == (1, 128)  # a name of its files
    assert shape(config={"hidden_size": 24, "num_hidden_layers": 1}) == (1, 24)
    monkeypatch.setattr("glassformer.train.recipes.model_sizes.FITS", {"tiny": 32_767, "mini": 32_768})
    assert shape(data={"train": "text.txt", "streaming": True}) == (4, 256)  # two steps of 4,096 tokens


def test_a_size_is_for_new_models_and_known(here, capsys):
    options = ["train", "text-generation", "--data=text.txt", "--output-dir=run"]
    for given, message in (
        (["--model=gpt2", "--size=tiny"], "size is for a new model such as new:bert, and gpt2 has its own"),
        (["--model=new:gpt2", "--size=huge"], "size must be one of None, 'tiny', 'mini', 'small', 'base', got 'huge'"),
    ):
        assert main([*options, *given]) == 1
        assert message in capsys.readouterr().err


def test_the_language_model_of_encoder_layers_is_trained_from_the_shell(here, capsys):
    options = ["--model=new:transformer", "--data=text.txt", "--vocabulary.vocab_size=300", "--options.context=16"]
    options += [*NARROW, "--max-steps=40", "--learning-rate=1e-2", "--output-dir=run", "--report=false"]
    assert main(["train", "text-generation", *options]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert re.fullmatch(
        r"text-generation: new:transformer \(1 layers x 16, [\d,]+ parameters\), \d+ blocks of text, 40 steps, cpu, "
        r"[\d.]+ kB a checkpoint",
        first,
    ), first
    assert main(["generate", "run", "the cat", "--max-new-tokens=3"]) == 0
    assert "sat on the" in capsys.readouterr().out


@pytest.mark.parametrize("more", [{}, {"freeze": ["transformer.embeddings"]}])
def test_the_first_line_of_a_run_says_how_large_a_checkpoint_is(here, more):
    recipe = make_recipe(values(size="tiny", train={**values()["train"], **more}))
    trainer = build_trainer(recipe)
    line = describe_run(trainer, recipe)
    assert "new:gpt2 (tiny, 2 layers x 128, " in line and ", 2 steps, cpu, " in line
    assert (" of them trained" in line) == bool(more)
    trainer.train()
    tensors = sum(file.stat().st_size for file in Path("run/checkpoint-2").glob("*.safetensors"))
    assert checkpoint_bytes(trainer) == pytest.approx(tensors, rel=0.01)


def test_messages_name_the_command_that_resumes_or_replaces(here, capsys, monkeypatch):
    options = ["--model=new:gpt2", "--data=text.txt", *NARROW, "--max-steps=2", "--output-dir=my run", "--report=false"]
    assert main(["train", "text-generation", *options]) == 0
    capsys.readouterr()
    assert main(["train", "text-generation", *options]) == 1
    message = capsys.readouterr().err
    resume, replace = re.fullmatch(r".*; to resume it: (.*); to replace it: (.*)\n", message).groups()
    launcher, *arguments = shlex.split(resume)
    assert launcher == "glass" and arguments[-1] == "--resume"
    assert main(arguments) == 0
    capsys.readouterr()
    remove, _, again = replace.partition(" && ")
    assert shlex.split(remove) == ["rm", "-r", "my run"]
    assert f"{again} --resume" == resume
