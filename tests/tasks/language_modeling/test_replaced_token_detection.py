"""ELECTRA's training: two models with shared embeddings, two objectives, and halves that load alone."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

import glassformer
from glassformer import ElectraForMaskedLM, ElectraForPreTraining, InputError, ReplacedTokenDetection
from glassformer.cli.main import main
from glassformer.nn.loss import IGNORED
from glassformer.tasks.language_modeling.replaced_token_detection import ReplacedTokenModels, sample_words
from glassformer.train.batches import Batches

from ...models.architectures import tiny_electra

LINES = [f"{who} {does} {what} ." for who in ("cat", "dog") for does in ("sees", "has") for what in ("sun", "sea")]
ROWS = [{"text": line} for line in LINES]


@pytest.fixture(scope="module")
def tokenizer():
    return glassformer.train_tokenizer(LINES, "wordpiece", vocab_size=60)


@pytest.fixture
def task(tokenizer) -> ReplacedTokenDetection:
    torch.manual_seed(0)
    config = tiny_electra(vocab_size=len(tokenizer), initializer_range=0.05, hidden_dropout_prob=0.0)
    return ReplacedTokenDetection(ElectraForPreTraining(config), tokenizer, generator_size=0.5, mask_fraction=0.3)


def batch_of(task, **limits):
    batches = Batches(task, ROWS, max_tokens=4096, **limits)
    return batches.collate(next(iter(batches))[0])


def test_the_embeddings_are_shared(task):
    models = task.trainable
    assert task.trainable is models and models.discriminator is task.model
    ours, theirs = models.discriminator.electra.embeddings, models.generator.electra.embeddings
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm"):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.projection is not theirs.projection
    assert models.generator.generator_lm_head.weight is ours.word_embeddings.weight
    config = models.generator.config
    assert (config.hidden_size, config.num_attention_heads, config.intermediate_size) == (24, 2, 36)
    assert config.num_hidden_layers == models.discriminator.config.num_hidden_layers


def test_both_objectives_by_hand(task):
    """With plain calls of the two models, row by row."""
    batch, models = batch_of(task), task.trainable.eval()
    outputs = task.outputs(models, batch)
    labels, ids, mask = batch.labels["labels"], batch.inputs["input_ids"], batch.inputs["attention_mask"]
    words, replaced, guessed = torch.zeros(()), torch.zeros(()), 0
    for row in range(len(ids)):
        chosen = (labels[row] != IGNORED).nonzero().flatten()
        logits = models.generator(ids[row : row + 1], attention_mask=mask[row : row + 1]).logits[0, chosen]
        words = words + F.cross_entropy(logits, labels[row, chosen], reduction="sum")
        chances = torch.rand(len(chosen), generator=torch.Generator().manual_seed(int(batch.labels["seed"][row])))
        corrupted, target = ids[row].clone(), torch.zeros(ids.shape[1])
        for place, chance, each in zip(chosen, chances, logits.softmax(-1), strict=True):
            word = int((each.cumsum(0) < chance * each.sum()).sum())
            corrupted[place], target[place] = word, float(word != labels[row, place])
            guessed += 1
        length = int(mask[row].sum())
        judged = models.discriminator(corrupted[None, :length]).logits[0]
        replaced = replaced + F.binary_cross_entropy_with_logits(judged, target[:length], reduction="sum")
    found = task.objectives_of(outputs, batch)
    assert guessed == found["masked_lm"].count and found["replaced_tokens"].count == int(mask.sum())
    torch.testing.assert_close(found["masked_lm"].total, words, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["replaced_tokens"].total, 50 * replaced, rtol=1e-4, atol=1e-3)


def test_the_two_models_learn_from_their_own_loss_alone(task):
    batch, models = batch_of(task), task.trainable
    found = task.objectives(models, batch)
    found["replaced_tokens"].total.backward()
    own = [p for name, p in models.generator.named_parameters() if "embeddings.projection" in name or "encoder" in name]
    assert all(parameter.grad is None for parameter in own)
    assert models.discriminator.electra.encoder.layer[0].intermediate.dense.weight.grad.abs().sum() > 0


def test_a_guess_depends_on_its_row_alone(task):
    models = task.trainable.eval()
    whole = task.objectives_of(task.outputs(models, batch_of(task)), batch_of(task))
    parts = Batches(task, ROWS, max_tokens=4096, max_rows=3)
    singles = [parts.collate(numbers) for step in parts.plan(0) for numbers in step]
    assert len(singles) > 1
    for name, (total, count) in whole.items():
        each = [task.objectives_of(task.outputs(models, batch), batch)[name] for batch in singles]
        assert sum(part.count for part in each) == count
        torch.testing.assert_close(sum(part.total for part in each), total, rtol=1e-4, atol=1e-3)


def test_words_are_sampled_by_their_probability():
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().expand(4000, 4)
    words = sample_words(logits, torch.rand(4000, generator=torch.Generator().manual_seed(0)))
    assert torch.allclose(words.bincount(minlength=4) / 4000, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.03)
    assert sample_words(logits[:2], torch.tensor([0.0, 1.0])).tolist() == [0, 3]


def test_a_run_learns_resumes_and_its_halves_load_alone(task, tokenizer, tmp_path):
    settings = {"max_steps": 30, "learning_rate": 3e-3, "logging_steps": 100, "save_steps": 10, "eval_steps": 30}

    def trainer(each, folder):
        return glassformer.Trainer(each, ROWS * 3, ROWS, glassformer.TrainSettings(output_dir=str(folder), **settings))

    whole = trainer(task, tmp_path / "run")
    before = whole.evaluate()
    assert before == whole.evaluate()
    whole.train()
    after = whole.evaluate()
    assert after["masked_accuracy"] > before["masked_accuracy"] and after["loss"] < before["loss"]
    assert {"replaced_accuracy", "replaced_precision", "replaced_recall", "perplexity"} <= after.keys()

    folder = tmp_path / "run"
    again = ReplacedTokenDetection.from_pretrained(
        tmp_path / "run/checkpoint-10", generator_size=0.5, mask_fraction=0.3
    )
    resumed = trainer(again, tmp_path / "resumed")
    resumed.train(resume=tmp_path / "run/checkpoint-10")
    for (name, a), (_, b) in zip(
        task.trainable.state_dict().items(), again.trainable.state_dict().items(), strict=True
    ):
        assert torch.equal(a, b), name

    assert json.loads((folder / "config.json").read_text())["architectures"] == ["ElectraForPreTraining"]
    discriminator = ElectraForPreTraining.from_pretrained(folder)
    generator = ElectraForMaskedLM.from_pretrained(folder / "generator")
    assert not discriminator.untrained and not generator.untrained
    word_vectors = discriminator.get_input_embeddings().weight
    assert torch.equal(generator.get_input_embeddings().weight, word_vectors)
    assert type(ReplacedTokenModels.from_pretrained(folder).generator) is ElectraForMaskedLM
    judge = glassformer.pipeline(model=str(folder))
    found = judge("cat sees sun .")
    assert judge.task == "replaced-token-detection" and [each["token"] for each in found] == tokenizer.tokenize(
        LINES[0]
    )
    assert all(0 < each["score"] < 1 for each in found) and found[0]["end"] == found[0]["start"] + len(
        found[0]["token"]
    )
    assert judge(["cat sees sun .", "dog"])[0][0]["score"] == pytest.approx(found[0]["score"], abs=1e-5)
    filler = glassformer.pipeline("fill-mask", model=str(folder / "generator"))
    assert len(filler(f"cat sees {tokenizer.mask_token} .", top_k=3)) == 3
    transformers = pytest.importorskip("transformers")
    theirs = transformers.ElectraForPreTraining.from_pretrained(folder).eval()
    batch = tokenizer("cat sees sun .", return_tensors="pt")
    torch.testing.assert_close(discriminator(**batch).logits, theirs(**batch).logits, rtol=1e-4, atol=1e-5)


def test_a_recipe_trains_it_and_what_follows(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES * 5) + "\n")
    shape = ["embedding_size=16", "hidden_size=32", "num_hidden_layers=2", "num_attention_heads=2"]
    recipe = ["--model=new:electra", f"--data={text}", "--vocabulary.vocab_size=60", "--options.generator_size=0.5"]
    recipe += [f"--config.{each}" for each in shape] + ["--max-steps=4", f"--output-dir={tmp_path / 'run'}"]
    assert main(["train", "replaced-token-detection", *recipe]) == 0
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\n" + "".join(f"{line}\t{line.split()[0]}\n" for line in LINES))
    tuned = [f"--model={tmp_path / 'run'}", f"--data={rows}", "--max-steps=2", f"--output-dir={tmp_path / 'tuned'}"]
    assert main(["train", "text-classification", *tuned]) == 0
    assert glassformer.pipeline(model=str(tmp_path / "tuned"))("cat has sea .")[0]["label"] in ("cat", "dog")


def test_checkpointing_is_for_both_models(task, tmp_path):
    settings = glassformer.TrainSettings(output_dir=str(tmp_path), max_steps=1, gradient_checkpointing=True)
    glassformer.Trainer(task, ROWS, None, settings)
    assert task.trainable.discriminator.is_gradient_checkpointing
    assert task.trainable.generator.is_gradient_checkpointing


def test_what_does_not_fit_is_refused(task, tokenizer, caplog, tmp_path):
    with pytest.raises(InputError, match="takes a discriminator, ElectraForPreTraining, not ElectraForMaskedLM"):
        ReplacedTokenDetection(ElectraForMaskedLM(tiny_electra()), tokenizer)
    with pytest.raises(InputError, match="a ElectraForPreTraining has no head; replaced-token-detection trains it"):
        glassformer.PreTraining(task.model, tokenizer)
    other = ElectraForMaskedLM(tiny_electra(vocab_size=len(tokenizer), embedding_size=16))
    with pytest.raises(InputError, match=r"generator's word_embeddings have the shape \[\d+, 16\]"):
        ReplacedTokenModels(task.model, other)
    with pytest.raises(InputError, match=r"generator_size must be a number from 0\.001 to 1, got 2"):
        ReplacedTokenDetection(task.model, tokenizer, generator_size=2)
    with pytest.raises(InputError, match="would answer at random"):
        glassformer.pipeline("replaced-token-detection", model=task.model, tokenizer=tokenizer)("cat")
    task.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    _ = ReplacedTokenDetection.from_pretrained(tmp_path).trainable
    assert "has no generator; a new one starts from random weights" in caplog.text
