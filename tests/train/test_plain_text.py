"""Training on plain text: packed documents, masks and pairs that change in each epoch and are equal when resumed."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.pairing import split_sentences
from glassformer.data.readers import read_rows
from glassformer.errors import DataError, InputError
from glassformer.nn.loss import IGNORED
from glassformer.tasks.task import Task
from glassformer.train.batches import Batches
from glassformer.train.distributed import ProcessGroup
from glassformer.train.evaluation import evaluate
from glassformer.train.step import take_step
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from .small import NO_DROPOUT, bert, classifier, same, tokenizer, weights, writer
from .small import ROWS as SMALL

LINES = """the cat sat on the mat .
it was very good !
the dog was playing in the park today .

john smith lives in london .
who works for acme ? john works for acme .

music is good . sports is not so good .
this example is in the park .
the film was bad , not good .
a dog sat in the park and played .

what did the cat do ? it sat .
the cat lives in new york .""".split("\n")
ROWS = [{"text": line} for line in LINES]


def masker(folder: Path, positions: int = 16, **options) -> Task:
    torch.manual_seed(0)
    model = glassformer.BertForMaskedLM(bert(max_position_embeddings=positions))
    return glassformer.MaskedLanguageModeling(model, tokenizer(folder), **{"documents": "blank", **options})


def pretrainer(folder: Path, **options) -> Task:
    torch.manual_seed(0)
    model = glassformer.BertForPreTraining(bert(max_position_embeddings=24))
    return glassformer.PreTraining(model, tokenizer(folder), **options)


def packer(folder: Path, n_positions: int = 8, **options) -> Task:
    fields = {**NO_DROPOUT, "embd_pdrop": 0.0, "n_positions": n_positions}
    return writer(folder, **fields).with_options(**{"documents": "blank", **options})


def settings(folder: Path, **others) -> TrainSettings:
    values = {
        "output_dir": str(folder),
        "tokens_per_batch": 40,
        "num_train_epochs": 3,
        "learning_rate": 1e-2,
        "save_steps": 1,
        "save_total_limit": None,
        "report": False,
    }
    return TrainSettings(**{**values, **others})


# --- documents never see each other ------------------------------------------------------------------------------


def test_packed_documents_never_attend_to_each_other(tmp_path):
    """Loss and gradient of a batch of pieces are those of every document alone."""
    task = packer(tmp_path, n_positions=64)
    batches = Batches(task, ROWS, max_tokens=10_000)
    everything = batches.collate(range(len(batches.rows)))
    task.model.zero_grad()
    total = task.loss(task.model, everything)
    total.backward()
    together = {name: each.grad.clone() for name, each in task.model.named_parameters()}
    task.model.zero_grad()
    alone = 0.0
    for number in range(len(batches.rows)):
        loss = task.loss(task.model, batches.collate([number]))
        loss.backward()
        alone += float(loss.detach())
    assert float(total.detach()) == pytest.approx(alone, rel=1e-5)
    for name, each in task.model.named_parameters():
        torch.testing.assert_close(each.grad, together[name], rtol=1e-4, atol=1e-5)
    assert everything.targets_count == sum(len(ids) - 1 for ids in documents(task))


def documents(task: Task) -> list[list[int]]:
    text = " ".join(line or "|" for line in LINES)
    return [task.tokenizer.encode(part, add_special_tokens=False) for part in text.split("|")]


def test_pieces_read_and_predict_their_document(tmp_path):
    task = packer(tmp_path, line_end=" !", document_end=" ?")
    lines = "\n".join(line and line + " !" for line in LINES).split("\n\n")
    right = [task.tokenizer.encode(text + " ?", add_special_tokens=False) for text in lines]
    pieces = Batches(task, ROWS, max_tokens=10_000)
    found: dict[int, list[int]] = {}
    for number in range(len(pieces.rows)):
        (example,) = pieces.encode(number)
        document = pieces.rows[number].document
        assert len(example) <= 8
        ids = found.setdefault(document, example.encoded.ids()[:1])
        ids += example.labels["labels"]
    assert list(found.values()) == right


def test_a_prefix_stands_before_every_document(tmp_path):
    task = packer(tmp_path, n_positions=64, prefix="[CLS]", documents="row")
    pieces = task.prepare_rows(ROWS)
    first = [pieces.corpus.ids[piece.first] for piece in (pieces[number] for number in range(len(pieces)))]
    assert set(first) == {task.tokenizer.cls_token_id} and len(first) == sum(map(bool, LINES))


def test_overlapping_blocks_evaluate_every_word_once_with_more_context(tmp_path):
    task = packer(tmp_path)
    plain = evaluate(task, ROWS)
    seen = evaluate(task.with_options(overlap=6), ROWS)
    assert plain["perplexity"] == pytest.approx(math.exp(plain["loss"]))
    assert seen["loss"] != plain["loss"]
    evaluated = Batches(task.with_options(overlap=6), ROWS, max_tokens=100, training=False)
    targets = evaluated.collate(range(len(evaluated.rows))).targets_count
    assert targets == sum(len(ids) - 1 for ids in documents(task))
    assert len(evaluated.rows) > len(Batches(task.with_options(overlap=6), ROWS, max_tokens=100).rows)


def test_a_continuous_cache_mixes_in_repeated_words(tmp_path):
    task = packer(tmp_path).with_options(overlap=3)
    batches = Batches(task, ROWS, max_tokens=10_000, training=False)
    expected = 0.0
    for number in range(len(batches.rows)):
        (example,) = batches.encode(number)
        ids, labels = example.encoded.ids(), example.labels["labels"]
        with torch.no_grad():
            body = task.model.base_model(torch.tensor([ids])).last_hidden_state[0]
            probabilities = task.model(torch.tensor([ids])).logits[0].softmax(-1)
        words = [*ids[1:], labels[-1]]
        for place, label in enumerate(labels):
            if label == IGNORED:
                continue
            alike = [math.exp(2.0 * float(body[place] @ body[i]) / math.sqrt(body.shape[1])) for i in range(place)]
            memory = sum(a for a, word in zip(alike, words, strict=False) if word == label) / (sum(alike) or 1.0)
            expected -= math.log(0.7 * float(probabilities[place, label]) + 0.3 * memory)
    found = evaluate(task.with_options(recall=0.3, recall_sharpness=2.0), ROWS)
    targets = sum(len(ids) - 1 for ids in documents(task))
    assert found["loss"] == pytest.approx(expected / targets, abs=1e-5)
    assert found["loss"] != pytest.approx(evaluate(task, ROWS)["loss"], abs=1e-3)
    with pytest.raises(InputError, match="recall must be a number from 0 to 1, got 2"):
        task.with_options(recall=2)


# --- masks and pairs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [masker, pretrainer])
def test_masks_change_with_the_epoch_and_only_with_it(tmp_path, make):
    task = make(tmp_path)
    batches = Batches(task, ROWS, max_tokens=64, seed=3)

    def epoch() -> list[tuple[int, list[int], list[int]]]:
        found = []
        for _ in range(len(batches.plan(batches.epoch))):
            for example in (each for rows in next(batches) for each in batches.collate(rows).examples):
                found.append((example.row, example.encoded.ids(), example.labels["labels"]))
        return sorted(found)

    first, second = epoch(), epoch()
    assert [row for row, *_ in first] == [row for row, *_ in second] and first != second
    batches = Batches(task, ROWS, max_tokens=16, seed=3)  # other batches, the same rows
    assert epoch() == first
    special = set(task.tokenizer.all_special_ids)
    for _, ids, labels in first:
        assert ids[0] == task.tokenizer.cls_token_id and ids[-1] == task.tokenizer.sep_token_id
        assert not special & {label for label in labels if label != IGNORED}
        assert any(label != IGNORED for label in labels)


def test_evaluation_is_always_the_same(tmp_path):
    task = pretrainer(tmp_path)
    found = evaluate(task, ROWS, tokens_per_batch=64)
    assert found == evaluate(task, ROWS, tokens_per_batch=64)
    assert found.keys() == {"loss", "masked_accuracy", "pair_accuracy", "perplexity", "rows"}
    assert evaluate(task, ROWS, tokens_per_batch=16)["loss"] == pytest.approx(found["loss"], rel=1e-5)


def test_the_loss_is_that_of_the_model(tmp_path):
    """Two means, added; and words are scored only where one is hidden."""
    task = pretrainer(tmp_path)
    task.model.eval()
    batches = Batches(task, ROWS, max_tokens=10_000)
    batch = batches.collate(range(len(batches.rows)))
    model = task.model.requires_grad_(False)
    right = model(**batch.inputs, labels=batch.labels["labels"], next_sentence_label=batch.labels["pairs"]).loss
    assert float(task.loss(task.model, batch, reduction="mean")) == pytest.approx(float(right), rel=1e-5)
    seen = []
    task.model.cls.predictions.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    task.loss(task.model, batch)
    assert seen == [int((batch.labels["labels"] != IGNORED).sum())]


def test_accumulated_pre_training_is_one_batch(tmp_path):
    """Though it has two means, a step in pieces is the step at once."""
    made = []
    for tokens in (10_000, 30):
        task = pretrainer(tmp_path)
        task.model.eval()
        batches = Batches(task, ROWS, max_tokens=tokens)
        numbers = [rows for step in batches.plan(0) for rows in step]
        optimizer = torch.optim.SGD(task.model.parameters(), lr=0.1)
        result = take_step(task, task.model, [batches.collate(rows) for rows in numbers], optimizer)
        made.append((len(numbers), result.loss, weights(task)))
    assert made[0][0] == 1 < made[1][0]
    assert made[0][1] == pytest.approx(made[1][1], rel=1e-5)
    for name, mine in made[0][2].items():
        torch.testing.assert_close(mine, made[1][2][name], rtol=1e-4, atol=1e-6)


def test_rows_that_a_rank_reads_only_to_keep_step_are_not_counted(tmp_path):
    """A rank of a split model that has no batch of its own runs one along, without targets."""
    task = pretrainer(tmp_path)
    task.model.eval()
    batches, results = Batches(task, ROWS, max_tokens=30), []
    numbers = [rows for step in batches.plan(0) for rows in step]
    for along in ([], [batches.collate(numbers[0]).without_targets()]):
        optimizer = torch.optim.SGD(task.model.parameters(), lr=0.0)
        mine = [batches.collate(rows) for rows in numbers]
        results.append(take_step(task, task.model, [*mine, *along], optimizer, process_group=ProcessGroup(shards=True)))
    assert (results[0].targets, results[0].tokens) == (results[1].targets, results[1].tokens)
    assert (results[0].loss, results[0].grad_norm) == pytest.approx((results[1].loss, results[1].grad_norm), rel=1e-5)


@pytest.mark.parametrize("pairs", ["next", "order"])
def test_pairs_keep_to_the_budget(tmp_path, pairs):
    """Also those of a short document with a long one."""
    long = [{"text": "the cat sat on the mat ."}] * 30
    short = [row for _ in range(20) for row in ({"text": ""}, {"text": "so bad !"}, {"text": "music ."})]
    alone = [row for _ in range(20) for row in ({"text": ""}, {"text": "it is very good !"})]
    batches = Batches(pretrainer(tmp_path, pairs=pairs), [*long, *short, *alone], max_tokens=48)
    batches.reading = 1
    for rows in (rows for step in batches.plan(1) for rows in step):
        for number, length in zip(rows, batches.collate(rows).lengths, strict=True):
            assert length <= batches.lengths[number]


def test_whole_words_are_masked_completely(tmp_path):
    rows = [{"text": "the unaffable dog was playing in the park and played . 我在北京天安门"}]
    cut = {"北京", "天安门"}
    for options, groups in (
        ({"mask_whole_words": True}, [["un", "##aff", "##able"], ["play", "##ing"]]),
        (
            {"mask_whole_words": True, "words": glassformer.data.document_corpus.longest_words(cut)},
            [["un", "##aff", "##able"], ["北", "京"], ["天", "安", "门"]],
        ),
    ):
        task = masker(tmp_path, positions=40, documents="row", max_length=40, **options)
        pieces = task.prepare_rows(rows)
        names = task.tokenizer.convert_ids_to_tokens(pieces.corpus.ids.tolist())
        hits: Counter[str] = Counter()
        for seed in range(200):
            labels = np.array(task.training_examples(pieces[0], (0, 0, seed))[0].labels["labels"])[1:-1]
            for group in groups:
                start = next(i for i in range(len(names)) if names[i : i + len(group)] == group)
                hidden = labels[start : start + len(group)] != IGNORED
                assert hidden.all() or not hidden.any(), group
                hits["".join(group)] += bool(hidden.any())
        assert all(hits["".join(group)] > 5 for group in groups)


def test_chinese_words_from_a_file_and_from_spaces(tmp_path):
    (tmp_path / "words.txt").write_text("北京\n天安门 5 ns\n", encoding="utf-8")
    shared = {"documents": "row", "mask_whole_words": True}
    listed = masker(tmp_path, words=str(tmp_path / "words.txt"), **shared).prepare_rows([{"text": "我爱北京天安门"}])
    spaced = masker(tmp_path, words="spaces", **shared).prepare_rows([{"text": "我 爱 北京 天安门"}])
    assert listed.corpus.begins.tolist() == spaced.corpus.begins.tolist() == [1, 1, 1, 0, 1, 0, 0]
    assert listed.corpus.ids.tolist() == spaced.corpus.ids.tolist()
    with pytest.raises(InputError, match="cannot be read"):
        masker(tmp_path, words=str(tmp_path / "none.txt"), **shared).prepare_rows(ROWS)
    with pytest.raises(InputError, match="for mask_whole_words=True"):
        masker(tmp_path, words="spaces")


def test_pairs_of_one_document_are_reported_and_their_order_is_trained(tmp_path, caplog):
    task = pretrainer(tmp_path, documents="file")
    pieces = task.prepare_rows(ROWS)
    assert "the text is one document" in caplog.text
    assert {task.training_examples(pieces[0], (0, 0, seed))[0].labels["pairs"] for seed in range(20)} == {0}
    task = pretrainer(tmp_path, documents="file", pairs="order", sentences="punctuation")
    pieces = task.prepare_rows(ROWS)
    assert len(pieces.corpus.lines) - 1 == sum(len(split_sentences(line)) for line in LINES)
    assert {task.training_examples(pieces[0], (0, 0, seed))[0].labels["pairs"] for seed in range(20)} == {0, 1}


def test_lines_without_tokens_are_no_sentences(tmp_path):
    """Of an empty line between two sentences, and of one that the tokenizer drops, no pair is made."""
    lines = ["it was very good !", "", "the cat sat .", "\u200b", "\u200b", "john works for acme .", "the dog sat ."]
    task = pretrainer(tmp_path, document_start="^the cat|^john|^\u200b")
    pieces = task.prepare_rows([{"text": line} for line in lines])
    assert len(pieces.corpus.lines) - 1 == 4 and (np.diff(pieces.corpus.lines) > 0).all()
    for seed in range(20):
        for number in range(len(pieces)):
            ids = task.training_examples(pieces[number], (0, seed, number))[0].encoded
            assert ids.tokens.count(task.tokenizer.sep_token_id) == 2 and 0 in ids.segments and 1 in ids.segments
    assert [pieces.name(number) for number in range(len(pieces))] == ["row 0", "row 2", "row 5"]


def test_models_without_a_pair_head_and_wrong_options_are_reported(tmp_path):
    words = glassformer.BertForMaskedLM(bert())
    with pytest.raises(InputError, match="BertForMaskedLM has no head; masked-language-modeling is"):
        glassformer.PreTraining(words, tokenizer(tmp_path))
    task = masker(tmp_path, whole_words=True)
    with pytest.raises(InputError, match=r"whole_words is about answers; .* pass mask_whole_words=True"):
        Batches(task, ROWS, max_tokens=40).collate([0])


# --- going on ----------------------------------------------------------------------------------------------------


def written(folder: Path) -> list[Path]:
    return sorted(folder.glob("whole/checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))


@pytest.mark.parametrize("make", [masker, pretrainer, packer])
@pytest.mark.parametrize("buffer", [None, 4])
def test_every_step_resumes_bit_for_bit(tmp_path, make, buffer):
    """Fresh masks in every epoch, and rows that are streamed, in the weights."""
    length = {"max_steps": 9}
    whole = make(tmp_path / "vocabulary")
    trainer = Trainer(whole, ROWS, ROWS[:4], settings(tmp_path / "whole", **length), buffer=buffer)
    trainer.train()
    assert trainer.total >= 6 and trainer.batches.epoch >= 1
    places = {folder: json.loads((folder / "training_state.json").read_text())["data"] for folder in written(tmp_path)}
    assert buffer is None or any(place["row"] > 0 for place in places.values())
    for folder in list(places)[1:-1:2]:
        step = folder.name
        task = make(tmp_path / "vocabulary")
        again = Trainer(task, ROWS, ROWS[:4], settings(tmp_path / f"again-{step}", **length), buffer=buffer)
        again.train(resume=folder)
        assert same(weights(task), weights(whole)), step


def test_streaming_reads_every_row_once_in_an_epoch_and_never_splits_documents(tmp_path):
    task = masker(tmp_path)
    trainer = Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=4), buffer=3)
    batches = trainer.batches
    seen, borders = [], []
    while not batches.at_epoch_end:
        if batches.is_buffer_used or not seen:
            borders.append(batches.row)
        seen += [example.labels for rows in next(batches) for example in batches.collate(rows).examples]
    assert all(not row or not LINES[row].strip() for row in borders) and len(borders) > 1
    all_tokens = sum(len(task.tokenizer.encode(line, add_special_tokens=False)) for line in LINES)
    assert sum(len(labels["labels"]) - 2 for labels in seen) == all_tokens
    assert batches.state_dict()["epoch"] == 1 and batches.state_dict()["row"] == 0
    with pytest.raises(InputError, match="give max_steps"):
        Trainer(task, ROWS, None, settings(tmp_path / "other"), buffer=3)
    with pytest.raises(InputError, match="readable more than once"):
        Trainer(task, iter(ROWS), None, settings(tmp_path / "other", max_steps=1), buffer=3)
    state = batches.state_dict()
    with pytest.raises(InputError, match="with a buffer of 3, and this run has one of 5"):
        Trainer(task, ROWS, None, settings(tmp_path / "o", max_steps=1), buffer=5).batches.load_state_dict(state)


def test_a_row_that_is_no_text_is_named(tmp_path):
    with pytest.raises(InputError, match="row 1: text must be a text, got int 7"):
        masker(tmp_path).prepare_rows([{"text": "the cat"}, {"text": 7}])
    with pytest.raises(InputError, match="no rows to train on"):
        Batches(masker(tmp_path), [{"text": " "}], max_tokens=10)


def test_a_row_that_cannot_be_read_loses_no_training(tmp_path, monkeypatch):
    """A streamed file is broken behind its beginning: the training so far is saved, and resumes when it is repaired."""
    good = [json.dumps({"text": row["text"], "label": row["label"]}) for row in SMALL]
    lines = [*good, *good]
    length = {"max_steps": 8, "save_steps": 1000, "tokens_per_batch": 24}

    def trainer(name: str) -> Trainer:
        rows = read_rows(tmp_path / "rows.jsonl")
        return Trainer(classifier(tmp_path), rows, None, settings(tmp_path / name, **length), buffer=5)

    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    whole = trainer("whole")
    whole.train()
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines[:11], '{"text": ', *lines[12:]]))
    broken = trainer("broken")
    with pytest.raises(DataError, match=r"rows.jsonl, line 12: broken JSON .*; the training so far is saved"):
        broken.train()
    full = trainer("full")
    monkeypatch.setattr(full, "save", lambda: full.load(tmp_path))  # an error of another kind
    with pytest.raises(DataError, match=r"line 12: broken JSON .*; the training so far could not be saved: "):
        full.train()
    assert 1 < broken.progress.step < 8 and (tmp_path / f"broken/checkpoint-{broken.progress.step}").exists()
    with pytest.raises(DataError, match=r"rows.jsonl, line 12: broken JSON"):
        trainer("broken").train(resume=True)
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    mended = trainer("broken")
    mended.train(resume=True)
    assert same(weights(mended.task), weights(whole.task))
