"""Head importance, ablation curves and pruning."""

from __future__ import annotations

import json
import re
import statistics

import pytest
import torch

import glassformer
from glassformer import BertForSequenceClassification, TextClassification
from glassformer.cli.main import main
from glassformer.cli.verbs.prune import show_importance
from glassformer.explain.analysis import head_importance as importance
from glassformer.explain.analysis.head_importance import Head
from glassformer.train.evaluation import evaluate

from ..models.architectures import ARCHITECTURES, tiny_bert, tiny_gpt2, tokens
from ..models.encoder_decoders import ENCODER_DECODERS
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB

ROWS = [
    {"text": text, "label": label}
    for text, label in (("so good", "A"), ("so bad", "B"), ("the cat sat on the mat", "A"), ("not a film", "B"))
] * 3


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = tiny_bert(vocab_size=len(VOCAB), id2label={0: "A", 1: "B"}, label2id={"A": 0, "B": 1})
    return save(tmp_path / "model", BertForSequenceClassification(config).eval())


@pytest.fixture
def task(folder):
    return TextClassification.from_pretrained(folder)


def test_ablation_is_the_loss_without_the_head(task):
    found = importance.head_importance(task, ROWS, "ablation")
    assert list(found) == [Head("attention", layer, head) for layer in range(3) for head in range(4)]
    mask = torch.ones(3, 4)
    mask[1, 2] = 0
    losses = []
    for given in (None, mask):
        batch = task.collate([example for row in ROWS for example in task.encode(task.read(row))])
        with torch.no_grad():
            out = task.model(**batch.inputs, head_mask=given, labels=batch.labels["labels"])
        losses.append(out.loss.item())
    assert found["attention", 1, 2] == pytest.approx(losses[1] - losses[0], abs=1e-5)


def test_the_gradient_is_the_slope_of_the_loss(task):
    """A small factor on one head changes the loss as its importance says."""
    task.model.double()
    one = ROWS[:1]
    found = importance.head_importance(task, one, "gradient")
    step, head = 1e-3, Head("attention", 2, 1)
    losses = []
    for factor in (1 + step, 1 - step):
        with task.model.patched(heads={2: {1: factor}}):
            losses.append(evaluate(task, one)["loss"])
    assert found[head] == pytest.approx(abs(losses[0] - losses[1]) / (2 * step), rel=1e-3)
    assert all(parameter.grad is None for parameter in task.model.parameters())


def test_the_least_important_heads_are_removed_first_and_one_stays():
    found = {Head("attention", 0, i): float(i) for i in range(4)} | {
        Head("attention", 1, i): 10.0 + i for i in range(4)
    }
    chosen = importance.least_important(found, 5)
    assert [(head.layer, head.head) for head in chosen] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    with pytest.raises(glassformer.InputError, match="6 of 8 heads can go"):
        importance.least_important(found, 7)


def test_an_ablation_curve_agrees_with_pruning(task):
    found = importance.head_importance(task, ROWS)
    points = importance.ablation_curve(task, ROWS, found, (0, 0.25, 0.5))
    assert [point.without for point in points] == [0, 3, 6]
    assert points[0].measures == evaluate(task, ROWS)
    before = task.model.num_parameters()
    importance.prune(task.model, importance.least_important(found, 6))
    assert evaluate(task, ROWS)["loss"] == pytest.approx(points[2].measures["loss"], abs=1e-6)
    assert task.model.num_parameters() == before - 6 * 4 * 48 * 12 - 6 * 3 * 12
    again = importance.head_importance(task, ROWS)  # of the remaining heads, by their original numbers
    assert len(again) == 6
    points = importance.ablation_curve(task, ROWS, again)  # no point twice, and one head of each attention stays
    assert [point.without for point in points] == [0, 1, 2, 3]
    with pytest.raises(glassformer.InputError, match="3 of 6 heads can go"):
        importance.ablation_curve(task, ROWS, again, (0, 0.9))
    with pytest.raises(glassformer.InputError, match="did you mean 'gradient'"):
        importance.head_importance(task, ROWS, "gradiant")


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr("glassformer.cli.output.speed_comparison.MIN_SECONDS", 0.0)


def test_the_command_writes_a_smaller_model_that_trains(folder, tmp_path, capsys):
    data, small = tmp_path / "rows.jsonl", tmp_path / "small"
    data.write_text("\n".join(map(json.dumps, ROWS)))
    arguments = ["prune", "text-classification", str(folder), "--data", str(data), "--share", "0.5", "--curve"]
    assert main([*arguments, "-o", str(small), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["cut"]) == 6
    assert [point["without"] for point in report["curve"]] == [0, 1, 2, 4, 5, 6]
    assert report["after"]["parameters"] < report["before"]["parameters"]
    assert report["after"]["loss"] == pytest.approx(report["curve"][-1]["loss"], abs=1e-6)
    speed = report["speed"]
    assert len(speed["rates"]) == 9 and speed["is_noise"] in (True, False)
    assert speed["ratio"] == pytest.approx(statistics.median(after / before for before, after in speed["rates"]))
    assert report["before"]["rows_per_second"] == statistics.median(before for before, _ in speed["rates"])
    again = TextClassification.from_pretrained(small)
    assert evaluate(again, ROWS)["loss"] == pytest.approx(report["after"]["loss"], abs=1e-6)
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "* the 6 of 12 heads that are needed least" in shown
    assert "rows_per_second" in shown
    assert re.search(r"without them: .*times as fast \(the median of 9 alternating rounds, from ", shown)
    assert main([*arguments, "-o", str(small)]) == 1
    assert "exists and is not empty" in capsys.readouterr().err
    assert main([*arguments[:-3], "--share", "1"]) == 1
    capsys.readouterr()
    assert main([*arguments, "--option", "trunkation=true"]) == 1
    assert "did you mean 'truncation'" in capsys.readouterr().err


def test_importance_is_shown_by_head_number(capsys):
    """Heads of a pruned model keep their numbers."""
    show_importance({Head("attention", 0, 0): 0.5, Head("attention", 0, 2): 1.0, Head("attention", 1, 1): 2.0}, [])
    assert capsys.readouterr().out.splitlines()[1:4] == [
        "layer         0         1         2",
        "0      5.00e-01            1.00e+00",
        "1                2.00e+00",
    ]


def test_heads_are_measured_on_some_rows_and_the_model_on_others(folder, tmp_path, capsys):
    data, other = tmp_path / "rows.jsonl", tmp_path / "other.jsonl"
    data.write_text("\n".join(map(json.dumps, ROWS)))
    others = [{"text": "the mat is so bad", "label": "B"}, {"text": "a good film", "label": "A"}]
    other.write_text("\n".join(map(json.dumps, others)))
    arguments = ["prune", "text-classification", str(folder), "--data", str(data), "--share", "0.5", "--curve"]
    assert main([*arguments, "--eval", str(other), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    task = TextClassification.from_pretrained(folder)
    found = importance.head_importance(task, ROWS)
    assert [value for *_, value in report["importance"]] == pytest.approx(list(found.values()), rel=1e-4)
    assert (report["rows"], report["eval_rows"]) == (12, 2)
    assert report["before"]["loss"] == pytest.approx(evaluate(task, others)["loss"], abs=1e-6)
    assert report["curve"][0]["loss"] == report["before"]["loss"]
    importance.prune(task.model, [Head(*head) for head in report["cut"]])
    assert report["after"]["loss"] == pytest.approx(evaluate(task, others)["loss"], abs=1e-6)
    assert main(arguments) == 0
    assert "--eval FILE measures on others" in capsys.readouterr().out
    assert main([*arguments, "--eval", str(other)]) == 0
    assert "--eval FILE" not in capsys.readouterr().out
    other.write_text("")
    assert main([*arguments, "--eval", str(other)]) == 1
    assert str(other) in capsys.readouterr().err


def test_a_pruned_model_is_fine_tuned_and_stays_pruned(folder, tmp_path, capsys):
    data, small, run = tmp_path / "rows.jsonl", tmp_path / "small", tmp_path / "run"
    data.write_text("\n".join(map(json.dumps, ROWS)))
    prune = ["prune", "text-classification", str(folder), "--data", str(data), "--share", "0.5", "-o", str(small)]
    assert main([*prune, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["after"]
    train = ["train", "text-classification", "--model", str(small), "--data", str(data), "--output-dir", str(run)]
    assert main([*train, "--learning-rate", "1e-2", "--num-train-epochs", "8"]) == 0
    tuned = TextClassification.from_pretrained(run)
    assert tuned.model.num_parameters() == before["parameters"]
    assert tuned.model.config.pruned_heads == TextClassification.from_pretrained(small).model.config.pruned_heads
    assert evaluate(tuned, ROWS)["loss"] < before["loss"]


# --- cross-attention --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@torch.no_grad()
def test_cross_attention_is_pruned_and_saved(kind, tmp_path):
    torch.manual_seed(0)
    fields = {"is_decoder": True, "add_cross_attention": True}
    model = glassformer.BertModel(tiny_bert(**fields)) if kind == "bert" else glassformer.GPT2Model(tiny_gpt2(**fields))
    model = model.double().eval()
    given = {"input_ids": tokens(2, 5), "encoder_hidden_states": torch.randn(2, 4, 48, dtype=torch.float64)}
    with model.patched(heads={0: [1]}, cross_heads={1: [0, 3]}):
        wanted = model(**given).last_hidden_state
    assert Head("crossattention", 1, 3) in importance.all_heads(model)
    importance.prune(model, [Head("attention", 0, 1), Head("crossattention", 1, 0), Head("crossattention", 1, 3)])
    torch.testing.assert_close(model(**given).last_hidden_state, wanted, rtol=1e-10, atol=1e-10)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    assert again.config.pruned_cross_heads == {1: [0, 3]}
    torch.testing.assert_close(again(**given)[0], model(**given)[0], rtol=1e-12, atol=1e-12)
    with pytest.raises(glassformer.InputError, match="keep at least one"):
        model.prune_heads({0: [0]}, cross={1: [1, 2]})
    assert model.layer(0).attention.pruned_heads == {1}  # nothing was pruned before the error
    plain = glassformer.BertModel(tiny_bert())
    with pytest.raises(glassformer.InputError, match="no crossattention to prune"):
        plain.prune_heads({}, cross={0: [0]})


@pytest.mark.parametrize("architecture", ENCODER_DECODERS, ids=lambda one: one.model_type)
@torch.no_grad()
def test_encoder_decoders_are_pruned_everywhere(architecture, tmp_path):
    torch.manual_seed(0)
    model = architecture.model(architecture.tiny()).double().eval()
    if not model.layers:
        pytest.skip("without attention layers there are no heads")
    given = {"input_ids": tokens(2, 5), "decoder_input_ids": tokens(2, 4)}
    first = model.encoder.layer_count
    with model.patched(heads={0: [1], first: [2]}, cross_heads={first + 1: [0]}):
        wanted = model(**given).logits
    model.prune_heads({0: [1], first: [2]}, cross={first + 1: [0]})
    torch.testing.assert_close(model(**given).logits, wanted, rtol=1e-10, atol=1e-10)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    torch.testing.assert_close(again(**given).logits, wanted, rtol=1e-10, atol=1e-10)


def test_every_architecture_has_heads_to_measure():
    for architecture in ARCHITECTURES:
        assert len(importance.all_heads(architecture.body(architecture.tiny()))) == 12
