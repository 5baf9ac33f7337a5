"""Looking changes nothing, shows what was asked for, and computes nothing else."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer.nn import attention as brick

from ..models.architectures import ARCHITECTURES, Architecture, tiny_bert, tiny_gpt2, tokens
from ..models.encoder_decoders import ENCODER_DECODERS

LENGTHS = (9, 4, 1, 7)


@pytest.fixture(params=ARCHITECTURES, ids=lambda a: a.model_type)
def architecture(request) -> Architecture:
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": tokens(*mask.shape) * mask, "attention_mask": mask}


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def models_of(architecture: Architecture):
    for kind in (architecture.body, *architecture.heads):
        yield kind(architecture.tiny()).double().eval()


@torch.no_grad()
def test_the_run_is_bit_for_bit_the_plain_one(architecture, batch):
    for model in models_of(architecture):
        plain = model(**batch, **architecture.call)
        with model.capture(True, queries=True, hidden=True):
            watched = model(**batch, **architecture.call)
        for a, b in zip(plain.to_tuple(), watched.to_tuple(), strict=True):
            assert torch.equal(a, b)


@torch.no_grad()
def test_what_is_seen_is_what_the_model_returns(architecture, batch):
    for model in models_of(architecture):
        wanted = {"output_attentions": True, "output_hidden_states": True}
        told = model(**batch, **wanted, **architecture.call)
        with model.capture({0: [2, 0], -1: True}, queries=True, hidden=[0, 2, -1]) as seen:
            model(**batch, **architecture.call)
        assert list(seen.attention) == [0, 2]
        assert_close(seen.attention[0], told.attentions[0][:, [2, 0]])
        assert_close(seen.attention[2], told.attentions[2])
        assert list(seen.hidden) == [0, 2, 3]
        for place, states in seen.hidden.items():
            assert_close(states, told.hidden_states[place])


@torch.no_grad()
def test_queries_and_keys_give_the_weights(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    ids = batch["input_ids"][:1]
    with model.capture([1], queries=True) as seen:
        model(ids)
    scores = seen.queries[1] @ seen.keys[1].transpose(-1, -2) / seen.queries[1].shape[-1] ** 0.5
    if model.is_decoder:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -1e300)
    assert_close(scores.softmax(-1), seen.attention[1])
    assert seen.values[1].shape == seen.keys[1].shape


@torch.no_grad()
def test_nothing_else_is_computed(architecture, batch, monkeypatch):
    model = architecture.body(architecture.tiny()).eval()
    shapes, explicit = [], brick.explicit_attention_weights

    def counted(q, *rest):
        shapes.append(tuple(q.shape))
        return explicit(q, *rest)

    monkeypatch.setattr(brick, "explicit_attention_weights", counted)
    with model.capture({1: [3]}):
        model(batch["input_ids"])
    assert [shape[:3] for shape in shapes] == [(4, 1, 9)]
    model(batch["input_ids"])
    assert len(shapes) == 1


@torch.no_grad()
def test_modules_by_name(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    out, seen = model.run_with_cache(**batch, **architecture.call)
    name = "encoder.layer.1.attention.self.query"
    real = batch["attention_mask"].bool()
    queries = seen[name]
    assert queries.shape == (*real.shape, 48)
    assert_close(queries[real], seen.queries[1].transpose(1, 2).flatten(2)[real])
    assert not queries[~real].any()
    assert_close(seen["encoder.layer.1.attention.self.weights"], seen.attention[1])
    assert_close(seen["encoder"], out[0])
    assert_close(seen["embeddings"], seen.hidden[0])
    assert name in seen
    with model.capture(modules=["encoder.layer.*.output.dense"]) as few:
        model(**batch)
    assert sorted(few) == [f"encoder.layer.{i}.output.dense" for i in range(3)]
    with pytest.raises(KeyError, match="was not captured"):
        few[name]


@torch.no_grad()
def test_all_is_as_before_when_it_ends(architecture, batch):
    model = architecture.body(architecture.tiny()).eval()
    with pytest.raises(ZeroDivisionError), model.capture(True, hidden=True, modules=["*"]) as seen:
        raise ZeroDivisionError
    model(**batch)
    assert not seen.attention
    assert not list(seen)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    with model.capture([0]) as outer, model.capture({0: [1]}) as inner:
        model(**batch)
    assert torch.equal(outer.attention[0][:, 1:2], inner.attention[0])


@torch.no_grad()
def test_pruned_heads_keep_their_numbers(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    model.prune_heads({0: [1]})
    told = model(**batch, output_attentions=True).attentions[0]
    with model.capture({0: [2, 3]}) as seen:
        model(**batch)
    assert_close(seen.attention[0], told[:, 1:])
    with pytest.raises(glassformer.InputError, match="head 1 was pruned"), model.capture({0: [1]}):
        pass


@torch.no_grad()
def test_with_a_past_the_keys_are_all(architecture, batch):
    if architecture.decoder is None:
        pytest.skip(f"{architecture.model_type} has no decoder")
    model = architecture.decoder(architecture.tiny(**architecture.decoder_fields)).double().eval()
    ids = batch["input_ids"]
    whole = model(ids, output_attentions=True).attentions[1]
    past = model(ids[:, :5], use_cache=True).past_key_values
    with model.capture({1: [0, 2]}, queries=True) as seen:
        model(ids[:, 5:], past_key_values=past, use_cache=True)
    assert_close(seen.attention[1], whole[:, [0, 2], 5:])
    assert seen.keys[1].shape[2] == ids.shape[1]
    with model.capture(True) as seen:
        model.generate(ids[:1], max_new_tokens=3, do_sample=False)
    assert seen.attention[0].shape[-1] == ids.shape[1] + 2


@pytest.mark.parametrize("position", ["relative_key", "relative_key_query"])
@torch.no_grad()
def test_relative_positions(position, batch):
    model = glassformer.BertModel(tiny_bert(position_embedding_type=position)).double().eval()
    told = model(**batch, output_attentions=True).attentions[2]
    with model.capture({2: [3, 1]}) as seen:
        model(**batch)
    assert_close(seen.attention[2], told[:, [3, 1]])


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@torch.no_grad()
def test_cross_attention(kind, batch):
    fields = {"is_decoder": True, "add_cross_attention": True}
    if kind == "bert":
        model = glassformer.BertModel(tiny_bert(**fields)).double().eval()
    else:
        model = glassformer.GPT2Model(tiny_gpt2(**fields)).double().eval()
    source = torch.randn(4, 6, 48, dtype=torch.float64)
    mask = (torch.arange(6) < torch.tensor((3, 6, 2, 5))[:, None]).long()
    given = {**batch, "encoder_hidden_states": source, "encoder_attention_mask": mask}
    told = model(**given, output_attentions=True)
    with model.capture([0], cross={1: [2]}, modules=["encoder.layer.1.crossattention.self.key"]) as seen:
        model(**given)
    assert_close(seen.cross[1], told.cross_attentions[1][:, [2]])
    assert_close(seen["encoder.layer.1.crossattention.self.weights"], seen.cross[1])
    assert seen["encoder.layer.1.crossattention.self.key"].shape == (4, 6, 48)
    with pytest.raises(glassformer.InputError, match="no layer has a crossattention"):
        plain = glassformer.BertModel(tiny_bert())
        with plain.capture(cross=True):
            pass


@torch.no_grad()
def test_a_head_mask_is_seen(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    mask = torch.rand(3, 4)
    told = model(**batch, head_mask=mask, output_attentions=True).attentions[1]
    with model.capture({1: [3, 0]}) as seen:
        model(**batch, head_mask=mask)
    assert_close(seen.attention[1], told[:, [3, 0]])


def test_wrong_names_are_told(batch):
    model = glassformer.BertForMaskedLM(tiny_bert(chunk_size_feed_forward=2)).eval()
    for asked, said in (
        ({"attention": [3]}, "layers 0 to 2, got 3"),
        ({"attention": {0: [4]}}, "heads 0 to 3, got 4"),
        ({"hidden": [4]}, "numbered 0 to 3, got 4"),
        ({"modules": ["encoder.layer.0.attention.self.querry"]}, "did you mean 'encoder.layer.0.attention.self.query'"),
        ({"modules": ["encoder.layer.0.intermediate"]}, "chunk_size_feed_forward=0"),
        ({"attention": "all"}, "layers are whole numbers, got 'all'"),
        ({"attention": {0.5: [1]}}, "layers are whole numbers, got 0.5"),
        ({"queries": True}, "queries are those of attention"),
        ({"hidden": ["last"]}, "hidden states are numbered 0 to 3, got 'last'"),
    ):
        with pytest.raises(glassformer.InputError, match=said), model.capture(**asked):
            pass
    assert not any(part._forward_hooks for part in model.modules())
    with model.capture(modules=["bert.encoder.layer.0.attention", "cls.predictions.transform"]) as seen:
        model(batch["input_ids"])
    assert sorted(seen) == ["cls.predictions.transform", "encoder.layer.0.attention"]
    with model.capture(hidden=-1, modules="encoder.layer.0.attention") as seen:  # one of each needs no list
        model(batch["input_ids"])
    assert (list(seen.hidden), list(seen), len(seen)) == ([3], ["encoder.layer.0.attention"], 1)


# --- patches ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_heads_off_and_scaled_equal_a_head_mask(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    mask = torch.ones(3, 4, dtype=torch.float64)
    mask[0, 1], mask[2, 3], mask[2, 0] = 0.0, 0.0, 0.25
    wanted = model(**batch, head_mask=mask).last_hidden_state
    with model.patched(heads={0: [1], 2: {3: 0.0, 0: 0.25}}):
        assert_close(model(**batch).last_hidden_state, wanted)
    assert not torch.allclose(model(**batch).last_hidden_state, wanted)


@torch.no_grad()
def test_a_skipped_layer_hands_on_what_it_got(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    with model.patched(skip=[1]), model.capture(hidden=True) as seen:
        model(**batch)
    assert torch.equal(seen.hidden[1], seen.hidden[2])


@torch.no_grad()
def test_patching_in_another_run_gives_that_run(architecture, batch):
    """All vectors of one layer taken from another text make everything behind it that of the other text."""
    model = architecture.body(architecture.tiny()).double().eval()
    other = {**batch, "input_ids": tokens(*batch["input_ids"].shape)}
    real = batch["attention_mask"].bool()
    wanted, seen = model.run_with_cache(**other)
    with model.patched({"encoder.layer.1": seen["encoder.layer.1"]}):
        patched = model(**batch)
    assert_close(patched.last_hidden_state[real], wanted.last_hidden_state[real])
    with model.patched({"encoder.layer.*.attention.output": lambda x: x * 1.0}):
        assert torch.equal(model(**batch).last_hidden_state, model(**batch).last_hidden_state)
    wrong = {"encoder.layer.0": torch.zeros(1, 2, 3)}
    with pytest.raises(glassformer.InputError, match="returns the shape"), model.patched(wrong):
        model(**batch)
    with pytest.raises(glassformer.InputError, match="inputs_embeds"), model.patched({"embeddings": abs}):
        pass
    with pytest.raises(glassformer.InputError, match="is a NoneType, and a tensor is needed"):  # noqa: SIM117
        with model.patched({"encoder.layer.0": lambda x: None}):
            model(**batch)
    with pytest.raises(glassformer.InputError, match="heads are named by layer"), model.patched(heads=[0]):
        pass


# --- encoder-decoders -------------------------------------------------------------------------------------------------


@pytest.fixture(
    params=[(a, name) for a in ENCODER_DECODERS for name in a.variants], ids=lambda p: f"{p[0].model_type}-{p[1]}"
)
def seq2seq(request):
    torch.manual_seed(0)
    architecture, variant = request.param
    model = architecture.model(architecture.tiny(**architecture.variants[variant])).double().eval()
    if not model.layers:
        with pytest.raises(glassformer.InputError, match="no attention layers"), model.capture(True):
            pass
        pytest.skip("without attention layers there is nothing to see")
    return model


@torch.no_grad()
def test_encoder_decoders_are_numbered_through(seq2seq, batch):
    written = {"decoder_input_ids": tokens(4, 6)}
    first = len(seq2seq.encoder.layer)
    told = seq2seq(**batch, **written, output_attentions=True, output_hidden_states=True)
    plain = seq2seq(**batch, **written)
    with seq2seq.capture({0: [2], first: [1, 3]}, cross={first + 1: [0]}, queries=True, hidden=[0, first, -1]) as seen:
        out = seq2seq(**batch, **written)
    assert torch.equal(out.logits, plain.logits)
    assert_close(seen.attention[0], told.encoder_attentions[0][:, [2]])
    assert_close(seen.attention[first], told.decoder_attentions[0][:, [1, 3]])
    assert_close(seen.cross[first + 1], told.cross_attentions[1][:, [0]])
    assert_close(seen.hidden[0], told.encoder_hidden_states[0])
    assert_close(seen.hidden[first], told.decoder_hidden_states[0])
    assert_close(seen.hidden[len(seq2seq.layers)], told.decoder_hidden_states[-1])
    _, cache = seq2seq.run_with_cache(**batch, **written)
    assert_close(cache["decoder.layer.1.crossattention.self.weights"], told.cross_attentions[1])
    assert cache["decoder.layer.1.crossattention.self.key"].shape == (4, 9, 32)
    assert cache["decoder.layer.1.attention.self.key"].shape == (4, 6, 32)


@torch.no_grad()
def test_patching_encoder_decoders(seq2seq, batch):
    written = {"decoder_input_ids": tokens(4, 6)}
    first = len(seq2seq.encoder.layer)
    mask, crossing = torch.ones(first, 4), torch.ones(len(seq2seq.decoder.layer), 4)
    mask[0, 1], crossing[1, 2] = 0, 0
    wanted = seq2seq(**batch, **written, head_mask=mask, cross_attn_head_mask=crossing).logits
    with seq2seq.patched(heads={0: [1]}, cross_heads={first + 1: [2]}):
        assert_close(seq2seq(**batch, **written).logits, wanted)
    with seq2seq.patched(skip=[first]), seq2seq.capture(hidden=[first, first + 1]) as seen:
        seq2seq(**batch, **written)
    assert torch.equal(seen.hidden[first], seen.hidden[first + 1])
