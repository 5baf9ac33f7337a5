"""`glass train` and `glass evaluate`: from options, from recipes, resumed exactly, and with errors in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import ConfigError
from glassformer.cli import main as command
from glassformer.train.recipes.build_trainer import build_trainer
from glassformer.train.recipes.recipe import DataSettings, Recipe, make_recipe, names_of
from glassformer.train.recipes.recipe_fields import set_field, set_fields
from glassformer.train.recipes.recipe_text import read_recipe
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from ..train.small import MASKED, ROWS, bert, same, tokenizer, weights

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with a pre-trained model that has no head, rows in a table, and a recipe."""
    monkeypatch.chdir(tmp_path)
    glassformer.BertModel(bert()).save_pretrained("model")
    tokenizer(tmp_path / "model").save_pretrained("model")
    names = ("bad", "good")
    lines = [f"{row['text']}\t{names[row['label']]}\n" for row in ROWS]
    Path("train.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    Path("dev.tsv").write_text("sentence\tlabel\n" + "".join(lines[:4]))
    Path("recipe.toml").write_text(
        'task = "text-classification"\nmodel = "model"\n'
        '[data]\ntrain = "train.tsv"\neval = "dev.tsv"\ncolumns = { text = "sentence", label = "label" }\n'
        '[train]\noutput_dir = "run"\nmax_steps = 4\ntokens_per_batch = 24\nlearning_rate = 1e-2\n'
    )
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = command.main(list(arguments))
    return code, *capsys.readouterr()


def test_train_and_evaluate_from_options(here, capsys):
    columns = ["--columns", "text=sentence", "--columns=label"]  # as all verbs have them
    options = ["--model", "model", "--data", "train.tsv", "--eval=dev.tsv", "--output-dir=run", "--max-steps", "30"]
    code, out, err = run(capsys, "train", "text-classification", *options, *columns, "--learning-rate=0.01")
    assert code == 0, err
    assert out.startswith("trained 30 steps; the model is in run\nbest accuracy: ")
    assert glassformer.AutoConfig.from_pretrained("run").label2id == {"bad": 0, "good": 1}
    code, out, err = run(
        capsys, "evaluate", "text-classification", "run", "--data=dev.tsv", "--columns", "text=sentence",
        "--columns", "label", "--json",
    )  # fmt: skip
    assert code == 0, err
    best = json.loads(Path("run/checkpoint-30/training_state.json").read_text())["metrics"]
    found = json.loads(out)
    assert {name: found[name] for name in best} == pytest.approx(best, abs=1e-5)
    code, _, err = run(
        capsys, "evaluate", "text-classification", "run", "--data=dev.tsv", "--tokens-per-batch=0"
    )  # fmt: skip
    assert code == 1 and "tokens_per_batch must be a whole number of at least 1, got 0" in err
    assert glassformer.pipeline("text-classification", model="run")("so bad")[0]["label"] in ("bad", "good")


def test_a_recipe_with_fields_of_the_command_line(here, capsys):
    code, out, err = run(capsys, "train", "recipe.toml", "--train.seed=7", "--weight-decay", "0.5", "--print-config")
    assert code == 0, err
    Path("whole.toml").write_text(out)
    recipe = make_recipe(read_recipe(Path("whole.toml")))
    assert (recipe.train.seed, recipe.train.weight_decay, recipe.train.max_steps) == (7, 0.5, 4)
    assert recipe.data.columns == {"text": "sentence", "label": "label"}
    assert not Path("run").exists()
    Path("recipe.toml").write_bytes(b"\xef\xbb\xbf" + Path("recipe.toml").read_bytes())  # as some editors write it
    code, out, err = run(capsys, "train", "recipe.toml", "--json")
    assert code == 0 and json.loads(out)["step"] == 4, err
    code, out, err = run(capsys, "train", "recipe.toml", "--format=2024-05-01", "--print-config")
    assert code == 0 and 'format = "2024-05-01"' in out, err


def test_resuming(here, capsys):
    assert run(capsys, "train", "recipe.toml", "--max-steps=2", "--lr-scheduler-type=constant")[0] == 0
    code, _, err = run(capsys, "train", "recipe.toml")
    assert (
        code == 1
        and "holds checkpoints of a run, the last of step 2; to resume it: glass train recipe.toml --resume" in err
    )
    code, out, err = run(capsys, "train", "recipe.toml", "--lr-scheduler-type=constant", "--resume")
    assert code == 0 and "trained 4 steps" in out, err


def test_check_resume_compares_a_resumed_run(here, capsys, monkeypatch):
    code, out, err = run(capsys, "train", "recipe.toml", "--check-resume")
    assert code == 0, err
    assert out.startswith("exact: 6 steps, and 6 with a break after 3, give ")
    monkeypatch.setattr("glassformer.train.trainer.load_random_state", lambda state: None)  # dropout goes elsewhere
    code, out, err = run(capsys, "train", "recipe.toml", "--check-resume")
    assert code == 1 and out.startswith("NOT exact: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text-classification"], "the command line needs model, a folder or a hub name\n"),
        (["recipe"], "there is no task 'recipe'; the recipe is called recipe.toml"),
        (
            ["text-clasification", "--model=model", "--data=train.tsv", "--output-dir=o"],
            "did you mean 'text-classification'",
        ),
        (["recipe.toml", "--train.learning_rat=1"], "recipe.toml: [train] has no field 'learning_rat', did you mean"),
        (["recipe.toml", "--learning-rat=1"], "has no field 'learning_rat', did you mean 'learning_rate'"),
        (["recipe.toml", "--learning-rate=fast"], "learning_rate must be a number of at least 0, got 'fast'"),
        (["recipe.toml", "--data.eval_fraction=0.1"], "give data.eval or data.eval_fraction, not both"),
        (["recipe.toml", "--options.truncatoin=true"], "did you mean 'truncation'"),
        (["recipe.toml", "--config.hiden_size=3"], "did you mean 'hidden_size'"),
        (["absent.toml"], "could not read absent.toml: no such file"),
        (["recipe.toml", "--data=absent.tsv"], "there is no file 'absent.tsv'"),
        (["recipe.toml", "--data.limit=0"], "data.limit must be a whole number of at least 1, got 0"),
        (["recipe.toml", "--from-scratch=1"], "from_scratch must be one of True, False, got 1"),
        (["recipe.toml", "--model.name=x"], "model.name cannot be set: model is not a section"),
        (["recipe.toml", "--tokenizer=[1]"], "recipe.toml: tokenizer must be a folder or a hub name, got [1]"),
        (["recipe.toml", "--lr=1"], "has no field 'lr': pass learning_rate"),
        (["recipe.toml", "--fp16"], "has no field 'fp16': pass precision='fp16'"),
        (["recipe.toml", "--column", "text=sentence"], "has no field 'column', did you mean 'columns'?"),
        (["recipe.toml", "--columns"], "data.columns maps names that the task reads to columns of the file, such"),
        (["recipe.toml", "--columns", "txt=label"], "data.columns has 'txt', and text-classification reads text"),
        (["recipe.toml", "--on-bad=skipp"], "on_bad must be 'raise' or 'skip', got str 'skipp'"),
        (["recipe.toml", "--buffer=7"], "data.buffer is for data.streaming, which is false"),
        (["recipe.toml", "--eval=none", "--eval-tail=0.01"], "of 10 rows leaves 10 for training and 0 for evaluation"),
        (["recipe.toml", "--model=new:gpt2", "--lora.r=2"], "needs trained weights; give new:gpt2 or [lora], not"),
        (["recipe.toml", "--model=new:gtp2"], "new:words; did you mean new:gpt2?"),
        (["recipe.toml", "--output-dir"], "recipe.toml needs train.output_dir, the folder to write; got True"),
        (["recipe.toml", "--data.columns={ text = 'sentence' }"], "must name all columns that are read, and label"),
    ],
)
def test_wrong_arguments_are_one_line(here, capsys, arguments, message):
    code, _, err = run(capsys, "train", *arguments)
    assert code == 1 and message in err
    assert err.strip().count("\n") == 0, err


def test_a_broken_recipe_is_reported(here, capsys):
    Path("broken.toml").write_text("task = \n")
    code, _, err = run(capsys, "train", "broken.toml")
    assert code == 1 and "broken.toml is not a TOML file: Invalid value (at line 1" in err


@pytest.mark.parametrize(
    "path", sorted({*RECIPES.rglob("*.toml")} - {*RECIPES.rglob("suite.toml")}), ids=lambda path: path.name
)
def test_the_recipes_are_valid(path):
    assert make_recipe(read_recipe(path), path.name).train.output_dir


def test_an_untrained_head_is_not_evaluated(here, capsys):
    code, _, err = run(capsys, "evaluate", "text-classification", "model", "--data=dev.tsv", "--columns=text=sentence")
    assert code == 1 and "would answer at random" in err


def test_masked_words_are_evaluated(here, capsys):
    glassformer.BertForMaskedLM(bert()).save_pretrained("filler")
    tokenizer(here / "filler").save_pretrained("filler")
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in MASKED))
    code, out, err = run(capsys, "evaluate", "fill-mask", "filler", "--data=rows.jsonl")
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()[:4]] == ["metric", "loss", "accuracy", "rows"]


def build_with(**fields) -> Trainer:
    values = read_recipe(Path("recipe.toml"))
    for name, value in fields.items():
        set_field(values, name.replace("__", "."), value)
    return build_trainer(make_recipe(values))


def test_from_scratch_is_the_same_shape_with_new_weights(here):
    tuned, fresh = build_with().task, build_with(from_scratch=True).task
    assert type(fresh.model) is type(tuned.model)
    assert fresh.model.config.label2id == tuned.model.config.label2id == {"bad": 0, "good": 1}
    mine, theirs = weights(fresh), weights(tuned)
    assert {name: tensor.shape for name, tensor in mine.items()} == {name: t.shape for name, t in theirs.items()}
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.allclose(mine[name], theirs[name], atol=1e-3)
    Path("model/model.safetensors").unlink()  # the shape is enough
    assert same(mine, weights(build_with(from_scratch=True).task))
    assert not same(mine, weights(build_with(from_scratch=True, seed=7).task))


def test_a_new_head_is_initialised_from_the_seed(here):
    torch.manual_seed(1)
    first = weights(build_with(seed=3).task)
    torch.manual_seed(2)
    assert same(first, weights(build_with(seed=3).task))
    assert not same(first, weights(build_with(seed=4).task))


def test_a_limit_samples_the_same_rows_in_every_run(here):
    sampled = [row["text"] for row in build_with(data__limit=4).batches.rows]
    assert len(build_with(data__eval_limit=2).eval_rows) == 2
    assert len(sampled) == 4 and sampled != [row["text"] for row in ROWS[:4]]
    assert sampled == [row["text"] for row in build_with(data__limit=4, seed=9).batches.rows]


@pytest.mark.parametrize(
    "task, model, tokens, config",
    [
        ("text-generation", "new:gpt2", "new:characters", "n_positions"),
        ("text-generation", "new:gpt2", "new:words", "n_positions"),
        ("text-generation", "new:gpt2", "new:bpe", "n_positions"),
        ("masked-language-modeling", "new:bert", "new:wordpiece", "max_position_embeddings"),
        ("pre-training", "new:bert", "new:wordpiece", "max_position_embeddings"),
    ],
)
def test_a_new_model_with_a_new_tokenizer_from_plain_text(here, capsys, task, model, tokens, config):
    Path("text.txt").write_text("\n".join(f"{row['text']}\n{row['text']}\n" for row in ROWS))
    shape = ["hidden_size=16", "num_hidden_layers=1", "num_attention_heads=2", f"{config}=20"]
    sizes = ["--vocabulary.vocab_size=300"] if tokens in ("new:wordpiece", "new:bpe") else []
    arguments = ["--model", model, "--tokenizer", tokens, "--data=text.txt", "--data.eval_tail=0.3", "--max-steps=3"]
    arguments += [f"--config.{each}" for each in shape] + sizes + ["--options.documents=blank", "--output-dir=run"]
    code, _, err = run(capsys, "train", task, *arguments)
    assert code == 0, err
    loaded = glassformer.AutoTokenizer.from_pretrained("run")
    assert glassformer.AutoConfig.from_pretrained("run").vocab_size == len(loaded)
    code, out, err = run(capsys, "evaluate", task, "run", "--data=text.txt", "--option", "documents=blank", "--json")
    assert code == 0, err
    assert json.loads(out)["perplexity"] > 1
    code, _, err = run(capsys, "train", task, *arguments, "--data.streaming", "--data.eval_tail=none", "--output-dir=r")
    assert code == 0, err


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"model": "new:openai-gpt"}, "new:openai-gpt needs a tokenizer: a folder, a name or .*, new:words$"),
        ({"vocabulary.vocab_size": 100}, r"\[vocabulary\] is for a new tokenizer: new:wordpiece"),
        ({"data.eval_tail": 0.1}, "give data.eval or data.eval_tail, not both"),
        ({"data.streaming": True, "data.limit": 3}, "data.limit needs all rows at once"),
        ({"data.buffer": 0}, "data.buffer must be a whole number of at least 1, got 0"),
    ],
)
def test_contradictions_in_a_recipe_are_reported(here, fields, message):
    values = read_recipe(Path("recipe.toml"))
    for name, value in fields.items():
        set_field(values, name, value)
    with pytest.raises(glassformer.errors.GlassformerError, match=message):
        make_recipe(values)


def test_scores_and_constant_labels_are_no_class_labels(here):
    values = read_recipe(Path("recipe.toml"))
    for label, message in (
        ("1.5", "labels such as '1.5' are not names but scores"),
        ("3", "all rows have the label '3'"),
    ):
        Path("train.tsv").write_text(f"sentence\tlabel\nso good\t{label}\nnot so good\t3\n")
        with pytest.raises(ConfigError, match=message):
            build_trainer(make_recipe(values))
        task = build_trainer(make_recipe({**values, "config": {"num_labels": 1}, "data": {"train": "train.tsv"}})).task
        assert task.kind == "regression"


def test_labels_that_differ_in_spaces_are_reported(here):
    Path("train.tsv").write_text("sentence\tlabel\nso good\tgood\nvery good\tgood \nso bad\tbad\n")
    with pytest.raises(ConfigError, match="the labels 'good' and 'good ' differ in spaces alone"):
        build_trainer(make_recipe(read_recipe(Path("recipe.toml"))))


def test_tags_that_are_numbers_need_names(here, capsys):
    rows = [{"tokens": ["john", "smith", "sat"], "tags": [1, 2, 0]}, {"tokens": ["the", "cat"], "tags": [0, 0]}]
    Path("tags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"task": "ner", "model": "model", "data": {"train": "tags.jsonl"}, "train": {"output_dir": "run"}}
    with pytest.raises(ConfigError, match="tags such as '0' are numbers, and it is unknown which of them is outside"):
        build_trainer(make_recipe(values))
    names = {"0": "O", "1": "B-PER", "2": "I-PER"}
    task = build_trainer(make_recipe({**values, "config": {"id2label": names}})).task
    assert [task.reference(row) for row in rows] == [["B-PER", "I-PER", "O"], ["O", "O"]]


def test_a_trained_head_refuses_other_labels(here, capsys):
    assert run(capsys, "train", "recipe.toml", "--max-steps=1")[0] == 0
    Path("topics.tsv").write_text("sentence\tlabel\nmusic\tarts\nacme works\ttrade\nthe park\tsports\n")
    again = ["train", "recipe.toml", "--model=run", "--data=topics.tsv", "--eval=none", "--output-dir=other"]
    code, _, err = run(capsys, *again)
    assert code == 1 and "the rows have the label 'arts', and run was trained on bad, good; config.ignore_mis" in err
    code, _, err = run(capsys, *again, "--config.ignore_mismatched_sizes=true")
    assert code == 0, err
    assert list(glassformer.AutoConfig.from_pretrained("other").label2id) == ["arts", "sports", "trade"]
    Path("topics.tsv").write_text("sentence\tlabel\nmusic\tgood\nacme works\t0\n")  # a number will do too
    assert run(capsys, *again, "--output-dir=third")[0] == 0


def test_other_separators_and_skipped_rows(here, capsys):
    lines = [f"{row['text']};{'good' if row['label'] else 'bad'}" for row in ROWS]
    Path("train.csv").write_text("\n".join(["sentence;label", *lines, "a; broken; row", '"open;bad', ""]))
    arguments = ["train", "recipe.toml", "--data=train.csv", "--eval=none"]
    message = run(capsys, *arguments)[2]
    assert "if ';' stands between columns, say --data.delimiter=';'; there is 'sentence;label'" in message
    message = run(capsys, *arguments, "--delimiter=;")[2]
    assert "train.csv, line 12: 3 fields, but line 1 has 2" in message
    message = run(capsys, *arguments, "--delimiter=;", "--on-bad=skip")[2]
    assert "2 rows skipped: train.csv, line 12" in message and "with --data.quotes=false a quote is a plain" in message
    Path("run").rename("before")
    code, _, message = run(capsys, *arguments, "--delimiter=;", "--on-bad=skip", "--quotes=false")
    assert code == 0 and "1 row skipped: train.csv, line 12" in message


def test_parallel_files_are_read_line_by_line(here):
    Path("texts.txt").write_text("so good\nso bad\n")
    Path("labels.txt").write_text("good\nbad\n")
    values = {**read_recipe(Path("recipe.toml")), "data": {"train": {"text": "texts.txt", "label": "labels.txt"}}}
    assert build_trainer(make_recipe(values)).batches.rows == [
        {"text": "so good", "label": "good"},
        {"text": "so bad", "label": "bad"},
    ]
    for field, value in (("on_bad", "skip"), ("format", "txt"), ("quotes", False)):
        with pytest.raises(ConfigError, match=f"data.{field} is not for files of plain lines, one for each column"):
            build_trainer(make_recipe({**values, "data": {**values["data"], field: value}}))


def test_a_folder_may_be_called_by_a_number_or_a_date():
    values: dict = {}
    set_fields(values, ["output_dir=2024-05-01", "model=7", "data=10:30:00", "seed=3"])
    assert values == {"train": {"output_dir": "2024-05-01", "seed": 3}, "model": "7", "data": {"train": "10:30:00"}}


def test_columns_are_spelt_as_in_all_verbs():
    values: dict = {"data": {"columns": {"text": "review", "label": "stars"}}}
    set_fields(values, ["columns=text=body", "data.columns=text_pair=2", "columns.score=x"])
    assert values == {"data": {"columns": {"text": "body", "label": "stars", "text_pair": 2, "score": "x"}}}
    set_fields(values, ['columns={ text = "title" }'])
    assert values == {"data": {"columns": {"text": "title"}}}


def test_fields_of_the_command_line_are_put_in_their_sections():
    values = {}
    set_fields(
        values, ["output-dir=7", "limit=3", "columns.text=1", "train.seed=2", "data=2024-05-01", "model=8", "lora.r=2"]
    )
    assert values == {
        "train": {"output_dir": "7", "seed": 2},
        "data": {"limit": 3, "columns": {"text": 1}, "train": "2024-05-01"},
        "model": "8",
        "lora": {"r": 2},
    }
    with pytest.raises(ConfigError, match=r"r.toml has no field 'learning_rate': it is train.learning_rate"):
        make_recipe({"learning_rate": 1}, "r.toml")


def test_a_final_model_that_is_not_the_best_is_reported(here, capsys):
    """A high rate makes the second evaluation worse than the first; the model that is kept is the last one."""
    rows = [{"text": row["text"], "label": f"{row['label']}"} for row in ROWS]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--model=model", "--data=rows.jsonl", "--eval=rows.jsonl", "--output-dir=run", "--max-steps=20"]
    given += ["--learning-rate=0.5", "--eval-steps=1", "--metric-for-best-model=loss"]
    code, out, err = run(capsys, "train", "text-classification", *given)
    assert code == 0, err
    found = json.loads(Path("run/result.json").read_text())
    kept, best = found["metrics"], found["best"]
    assert kept["loss"] > best["value"]
    message = f"best loss: {best['value']:.4f} at step {best['step']}; of the model that was kept: {kept['loss']:.4f}\n"
    assert out.endswith(message)
    page = Path("run/report.html").read_text()
    assert f"<td>final model</td><td>loss {kept['loss']:.4f}, accuracy {kept['accuracy']:.4f}" in page


def test_an_adapter_is_evaluated(here, capsys):
    code, *_ = run(capsys, "train", "recipe.toml", "--lora.r=2", "--max-steps=2")
    assert code == 0 and not Path("run/model.safetensors").exists()
    columns = ["--columns=text=sentence", "--columns=label"]
    code, out, err = run(capsys, "evaluate", "text-classification", "run", "--data=dev.tsv", *columns, "--json")
    assert code == 0, err
    message = json.loads(Path("run/result.json").read_text())
    assert json.loads(out)["loss"] == pytest.approx(message["metrics"]["loss"], abs=1e-5)
    assert message["trained_parameters"] < message["parameters"] / 4


def test_a_new_model_gets_a_tokenizer_of_its_kind():
    values = {"task": "text-generation", "data": {"train": "text.txt"}, "train": {"output_dir": "run"}}
    assert make_recipe({**values, "model": "new:gpt2"}).tokenizer == "new:bpe"
    assert make_recipe({**values, "model": "new:bert"}).tokenizer == "new:wordpiece"
    assert make_recipe({**values, "model": "new:gpt2", "tokenizer": "new:words"}).tokenizer == "new:words"
    assert make_recipe({**values, "model": "gpt2"}).tokenizer is None


def test_a_usual_column_name_is_found(here, capsys):
    options = ["--model", "model", "--data", "train.tsv", "--output-dir=run", "--max-steps=1"]
    for more in ([], ["--model=new:bert", "--config.hidden_size=12", "--config.num_hidden_layers=1"]):
        code, _, err = run(capsys, "train", "text-classification", *options, *more, f"--output-dir=run{len(more)}")
        assert code == 0, err
        assert "'sentence' as text" in err


def test_an_unknown_column_is_reported_with_the_option_of_the_verb(here, capsys):
    Path("rows.tsv").write_text("review\tlabel\nso good\tgood\nso bad\tbad\n")
    options = ["text-classification", "--model=model", "--data=rows.tsv", "--output-dir=run"]
    assert "it is: --columns text=..., and all other columns in the same way" in run(capsys, "train", *options)[2]
    Path("rows.tsv").write_text("text\tlabel\n" + "so good " * 99 + "\tgood\nso bad\tbad\n")
    assert "pass --options.truncation=true to cut it" in run(capsys, "train", *options)[2]


def test_all_fields_are_shown_before_anything_is_chosen(capsys):
    code, out, err = run(capsys, "train", "text-classification", "--print-config")
    assert code == 0, err
    for name in (*names_of(Recipe), *names_of(DataSettings), *names_of(TrainSettings)):
        assert re.search(rf"^(# )?\[?{name}\b", out, re.MULTILINE), name


@pytest.mark.parametrize("model, tokens", [("bert", "wordpiece"), ("distilbert", "wordpiece"), ("gpt2", "bpe")])
def test_a_new_model_has_the_tokenizer_of_its_kind_unless_another_is_given(here, model, tokens):
    values = {name: value for name, value in read_recipe(Path("recipe.toml")).items() if name != "tokenizer"}
    values["model"] = f"new:{model}"
    assert make_recipe(values).tokenizer == f"new:{tokens}"
    assert make_recipe({**values, "tokenizer": "new:words"}).tokenizer == "new:words"


def test_a_head_is_called_untrained_only_while_it_is(here, caplog, capsys):
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    train = ["--data=rows.jsonl", "--output-dir=run", "--max-steps=2", "--lora.r=2"]
    code, _, err = run(capsys, "train", "text-classification", "--model=model", *train)
    assert code == 0, err
    assert "model has no trained classifier; it starts from random weights" in err
    assert "before use" not in err
    code, _, err = run(capsys, "predict", "text-classification", "run", "a good film")
    assert (code, "trained" in err) == (0, False), err  # the adapter brings the classifier
    glassformer.AutoModelForSequenceClassification.from_pretrained("model")
    assert "starts from random weights and must be trained before use" in caplog.text
