"""fill-mask: transformers' proposals, several masks, targets, whole words; only masked positions are scored."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import FillMask, InputError, pipeline
from glassformer.tasks.inference import answers
from glassformer.tasks.language_modeling.fill_mask import whole_words

from ..conftest import close, theirs
from ..tiny import VOCAB

KIND = glassformer.BertForMaskedLM
ONE = "the cat sat on the [MASK] ."
TWO = "the [MASK] sat on the [MASK] !"


@pytest.fixture
def folder(checkpoint):
    return checkpoint(KIND)


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"targets": ["cat", "dog", "park"]}, {"targets": "cat"}])
@pytest.mark.parametrize("given", [ONE, TWO, [ONE], [ONE, TWO], ["so [MASK]", ONE, "[MASK]"]])
def test_proposals_are_those_of_transformers(folder, given, options):
    close(pipeline("fill-mask", model=folder)(given, **options), theirs("fill-mask", folder)(given, **options))


def test_only_whole_words(folder):
    pipe = pipeline("fill-mask", model=folder, top_k=len(VOCAB))
    every, words = pipe(ONE), pipe(ONE, whole_words=True)
    assert len(every) == len(VOCAB)
    left_out = {each["token_str"] for each in every} - {each["token_str"] for each in words}
    assert {"##ing", "##s", ".", "?", "[MASK]", "[CLS]"} <= left_out
    assert not {"the", "cat", "un", "北", "e"} & left_out
    assert words == [each for each in every if each["token_str"] not in left_out]


def test_whole_words_of_byte_pairs():
    assert whole_words({"Ġcat": 0, "cat": 1, "Ġ.": 2, "<s>": 3, "Ġ42": 4}) == [0, 4]
    assert whole_words({"▁cat": 0, "s": 1, "▁.": 2, "<s>": 3, "[CLS]": 4, "▁42": 5}) == [0, 5]


def test_a_target_is_one_token(folder):
    pipe = pipeline("fill-mask", model=folder)
    assert {each["token_str"] for each in pipe(ONE, targets=["Cat", "dog"])} == {"cat", "dog"}
    with pytest.raises(InputError, match=r"'unaffable' is 3 tokens \(un ##aff ##able\), and a mask stands for one"):
        pipe(ONE, targets=["cat", "unaffable"])
    with pytest.raises(InputError, match="'zebra' is not in the vocabulary"):
        pipe(ONE, targets="zebra")


def test_long_texts(folder):
    pipe = pipeline("fill-mask", model=folder)
    long = "the [MASK] sat . " + "the cat sat . " * 12
    with pytest.raises(InputError, match="a text has 54 tokens and the model takes 40"):
        pipe(long)
    for options in ({"truncation": True}, {"tokenizer_kwargs": {"truncation": True}}):
        found = pipe(long, **options)
        assert {each.pop("truncated") for each in found} == {True}
        close(found, theirs("fill-mask", folder)(long, tokenizer_kwargs={"truncation": True}))
    with pytest.raises(InputError, match=r"has no .MASK. in the part that was not truncated"):
        pipe("the cat sat . " * 12 + "[MASK]", truncation=True)


def test_a_text_without_a_mask(folder):
    with pytest.raises(InputError, match=r"row 1: the text has no .MASK.: 'the cat'"):
        pipeline("fill-mask", model=folder)([ONE, "the cat"])


def test_a_file_keeps_its_masks(folder, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{ONE}\n{TWO}\n")
    pipe = pipeline("fill-mask", model=folder)
    close(list(pipe(tmp_path / "texts.txt")), pipe([ONE, TWO]))


def test_a_pretraining_checkpoint_fills_masks(checkpoint):
    folder = checkpoint(glassformer.BertForPreTraining)
    close(pipeline(model=folder)(ONE), theirs("fill-mask", folder)(ONE))
    loaded = glassformer.BertForPreTraining.from_pretrained(folder)
    close(pipeline(model=loaded)(ONE), pipeline(model=folder)(ONE))


# --- training and evaluation ------------------------------------------------------------------------------------------

ROWS = [{"text": TWO, "words": ["cat", "mat"]}, {"text": ONE, "words": "park"}]


def test_the_loss_is_the_models_own(folder):
    task = FillMask.from_pretrained(folder)
    batch = task.collate([example for row in ROWS for example in task.encode(task.read(row))])
    assert batch.targets_count == 3
    expected = task.model(**batch.inputs, **batch.labels).loss
    torch.testing.assert_close(task.loss(task.model, batch, reduction="mean"), expected)
    expected.backward()
    gradients = [parameter.grad.clone() for parameter in task.model.parameters()]
    task.model.zero_grad()
    task.loss(task.model, batch, reduction="mean").backward()
    for parameter, gradient in zip(task.model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_evaluation(folder):
    task = FillMask.from_pretrained(folder)
    predicted = list(answers(task, ROWS, finish=task.predict))
    assert predicted[1] == [pipeline(model=folder)(ONE, top_k=1)[0]["token"]]
    right = [task.reference(row) for row in ROWS]
    assert right == [[VOCAB.index("cat"), VOCAB.index("mat")], [VOCAB.index("park")]]
    assert task.compute_metrics([[right[0][0], 0], right[1]], right) == {"accuracy": 2 / 3}


def test_plain_text_is_for_another_task(folder):
    task = FillMask.from_pretrained(folder)
    with pytest.raises(InputError, match=r"rows with words, .* masked-language-modeling is trained on plain"):
        task.training_examples({"text": "the cat sat"}, (0, 0, 0))


def test_wrong_words(folder):
    task = FillMask.from_pretrained(folder)
    with pytest.raises(InputError, match="one word for each mask, 2 in all, got list"):
        task.encode(task.read({"text": TWO, "words": ["cat"]}))


@pytest.mark.parametrize("options", [{"top_k": 0}, {"targets": []}, {"targets": [3]}, {"whole_words": 1}])
def test_wrong_options(folder, options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        pipeline("fill-mask", model=folder)(ONE, **options)
