"""Which tags may follow which, and token classifiers that judge them together."""

from __future__ import annotations

import itertools

import pytest
import torch

import glassformer
from glassformer import BertForTokenClassification, ConfigError, InputError, LoraConfig, WeightsError, add_lora
from glassformer.models.base.tag_schemes import Scheme, allowed_paths, first_break

from .architectures import ARCHITECTURES, tiny_bert

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BMES = ("O", "B-PER", "M-PER", "E-PER", "S-PER")
NAMES = {"id2label": dict(enumerate(BIO))}


@pytest.mark.parametrize(
    ("tags", "good", "bad"),
    [
        (BIO, ["B-PER I-PER I-PER B-PER", "O B-LOC O", "B-PER B-LOC"], ["I-PER", "O I-LOC", "B-PER I-LOC"]),
        (BMES, ["B-PER M-PER E-PER S-PER", "B-PER E-PER O"], ["B-PER", "B-PER O", "E-PER", "S-PER E-PER", "M-PER"]),
        (("O", "B", "I"), ["B I O"], ["O I", "I"]),
        (("B", "M", "E", "S"), ["S S B M M E", "B E"], ["B", "E S", "S M", "B S"]),
        (("O", "B-X", "I-X", "L-X", "U-X"), ["B-X I-X L-X U-X"], ["B-X I-X", "U-X L-X", "B-X U-X"]),
        (("O", "I-PER", "I-LOC"), ["I-PER I-LOC O I-PER"], []),  # without B, all is allowed
        (("NOUN", "VERB", "O"), ["VERB NOUN O VERB"], []),
    ],
)
def test_schemes(tags, good, bad):
    assert [first_break(row.split(), tags) for row in good] == [None] * len(good)
    assert all(first_break(row.split(), tags) for row in bad)


def test_masks_say_what_the_scheme_says():
    scheme, allowed = Scheme(BMES), allowed_paths(BMES)
    for (i, one), (j, other) in itertools.product(enumerate(BMES), repeat=2):
        assert bool(allowed.transitions[i, j]) == scheme.follows(other, one)
    assert allowed.start.tolist() == [True, True, False, False, True]
    assert allowed.end.tolist() == [True, False, False, True, True]


@pytest.mark.parametrize("tags", [("NOUN", "VERB"), ("LABEL_0", "LABEL_1"), ("O", "I-PER"), ("B", "E")])
def test_tags_that_constrain_nothing(tags):
    """The last have no path for a text of one word."""
    assert allowed_paths(tags) is None


# --- models -----------------------------------------------------------------------------------------------------------


CLASSES = [
    (each, kind) for each in ARCHITECTURES for kind in each.heads if kind.__name__.endswith("ForTokenClassification")
]


@pytest.mark.parametrize(("architecture", "kind"), CLASSES, ids=[kind.__name__ for _, kind in CLASSES])
def test_every_token_classifier_can_have_one(architecture, kind, tmp_path):
    torch.manual_seed(0)
    model = kind(architecture.tiny(**NAMES, crf=True)).eval()
    torch.nn.init.normal_(model.crf.transitions)
    model.save_pretrained(tmp_path)
    again = glassformer.AutoModelForTokenClassification.from_pretrained(tmp_path)
    assert again.config.crf == "constrained" and not again.untrained
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    ids, labels = torch.randint(5, 50, (3, 6)), torch.tensor([[0, 1, 2, -100, 0, 3], [1, 1, 2, 2, 0, 0], [-100] * 6])
    mask = torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0], [1] * 6])
    labels[1, 4:] = -100
    loss = again(ids, attention_mask=mask, labels=labels).loss
    each = [model(ids[i : i + 1, :n], labels=labels[i : i + 1, :n]).loss for i, n in ((0, 6), (1, 4))]
    torch.testing.assert_close(loss, (5 * each[0] + 4 * each[1]) / 9)
    labels[0, 0] = 9
    with pytest.raises(InputError, match="label 9 at place"):
        again(ids, labels=labels)


def test_without_transitions_the_loss_is_the_cross_entropy():
    torch.manual_seed(0)
    model = BertForTokenClassification(tiny_bert(**NAMES)).eval()
    ids, labels = torch.randint(5, 50, (2, 6)), torch.randint(5, (2, 6))
    plain = model(ids, labels=labels)
    model.add_crf("unconstrained")
    joint = model(ids, labels=labels)
    torch.testing.assert_close(joint.loss, plain.loss)
    assert torch.equal(joint.logits, plain.logits)


def test_a_new_one_is_untrained_until_it_learns(tmp_path):
    model = BertForTokenClassification(tiny_bert(**NAMES))
    model.save_pretrained(tmp_path / "plain")
    plain = BertForTokenClassification.from_pretrained(tmp_path / "plain")
    plain.add_crf()
    assert plain.untrained == ["crf"]
    plain.save_pretrained(tmp_path / "new")
    again = BertForTokenClassification.from_pretrained(tmp_path / "new")
    assert again.untrained == ["crf"]
    again.crf.transitions.data += 0.1
    assert again.untrained == []
    loaded = BertForTokenClassification.from_pretrained(tmp_path / "plain", crf="unconstrained")
    assert loaded.untrained == ["crf"] and loaded.config.crf == "unconstrained"


def test_what_is_wrong_with_the_files(tmp_path):
    model = BertForTokenClassification(tiny_bert(**NAMES, crf=True))
    del model.crf.end_transitions
    model.save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match=r"crf\.end_transitions: missing"):
        BertForTokenClassification.from_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="crf must be true, false, 'constrained' or 'unconstrained', got 'yes'"):
        tiny_bert(crf="yes")
    with pytest.raises(InputError, match="has a conditional random field already"):
        BertForTokenClassification(tiny_bert(**NAMES, crf=True)).add_crf()
    with pytest.raises(InputError, match=r"config\.crf is None"):
        BertForTokenClassification(tiny_bert(**NAMES)).path_scores()


def test_with_an_adapter(tmp_path):
    torch.manual_seed(0)
    BertForTokenClassification(tiny_bert(**NAMES)).save_pretrained(tmp_path / "base")
    model = BertForTokenClassification.from_pretrained(tmp_path / "base")
    model.add_crf()
    assert add_lora(model, LoraConfig(r=2)).modules_to_save == ("crf",)
    assert model.crf.transitions.requires_grad and not model.classifier.weight.requires_grad
    torch.nn.init.normal_(model.crf.transitions)
    model.save_pretrained(tmp_path / "adapter")
    again = glassformer.AutoModelForTokenClassification.from_pretrained(tmp_path / "adapter")
    assert torch.equal(again.crf.transitions, model.crf.transitions) and not again.untrained
    plain = BertForTokenClassification.from_pretrained(tmp_path / "base")
    add_lora(plain, LoraConfig(r=2))
    with pytest.raises(InputError, match="has an adapter, which could not save"):
        plain.add_crf()
