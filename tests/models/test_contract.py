"""The contract that every architecture keeps."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import pytest
import torch

import glassformer
from glassformer.nn.layout import Layout
from glassformer.nn.prepared import prepared
from glassformer.nn.quantize import Int8Linear
from glassformer.registry import ARCHITECTURES as REGISTERED

from .architectures import ARCHITECTURES, OF_PICTURES, WINDOWED, Architecture, tokens
from .encoder_decoders import ENCODER_DECODERS, OF_SOUND

LENGTHS = (9, 4, 1, 7)
# Parameters that only optional inputs reach, of an XLNet `target_mapping` and `token_type_ids`, of a Longformer
# `global_attention_mask`: see test_xlnet.py and test_longformer.py.
OF_OPTIONAL_INPUTS = {"mask_emb", "segment_bias", "segment_vectors", "query_global", "key_global", "value_global"}


@pytest.fixture(params=[*ARCHITECTURES, *OF_PICTURES], ids=lambda a: a.model_type)
def architecture(request) -> Architecture:
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def batch(architecture) -> dict[str, torch.Tensor]:
    """Token ids of different lengths; or pictures, which are all equally long."""
    torch.manual_seed(1)
    if architecture.body.feature_inputs:
        return {architecture.body.feature_inputs[0]: torch.randn(len(LENGTHS), 3, 16, 16)}
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": tokens(*mask.shape) * mask, "attention_mask": mask}


def body_of(architecture: Architecture, dtype=torch.float64, **fields):
    return architecture.body(architecture.tiny(**fields)).to(dtype).eval()


def seen_in(batch: dict[str, torch.Tensor], architecture: Architecture) -> torch.Tensor:
    """Which positions hold a token: B T."""
    if "attention_mask" in batch:
        return batch["attention_mask"].bool()
    return torch.ones(len(LENGTHS), 1 + math.prod(architecture.tiny().grid)).bool()


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def aligned(model: torch.nn.Module) -> torch.nn.Module:
    """The same weights at addresses that torch chose: those of a mapped file may begin anywhere in a vector register,
    and the last bits of a product depend on it."""
    return copy.deepcopy(model)


def test_every_architecture_is_here():
    known = (*ARCHITECTURES, *OF_PICTURES, *ENCODER_DECODERS, *OF_SOUND)
    assert {architecture.model_type for architecture in known} == set(REGISTERED)


@torch.no_grad()
def test_body_equals_the_reference(architecture, batch, tmp_path):
    model = body_of(architecture)
    model.save_pretrained(tmp_path)
    reference = architecture.reference.load(type(model).__name__, tmp_path)
    wanted = {"output_hidden_states": True, "output_attentions": True}
    wanted |= architecture.call
    ours, theirs = model(**batch, **wanted), reference(**batch, **wanted)
    seen = seen_in(batch, architecture)
    if "pooler_output" in ours:
        assert_close(ours.pooler_output, theirs.pooler_output)
    for a, b in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        assert_close(a[seen], b[seen])
    for a, b in zip(ours.attentions, theirs.attentions, strict=True):
        assert_close(a.transpose(1, 2)[seen], b.transpose(1, 2)[seen])


@torch.no_grad()
def test_heads_equal_the_reference(architecture, batch, tmp_path):
    for head, labels in architecture.heads.items():
        model = head(architecture.tiny()).double().eval()
        model.save_pretrained(tmp_path / head.__name__)
        reference = architecture.reference.load(head.__name__, tmp_path / head.__name__)
        seen = seen_in(batch, architecture)
        given = {**batch, **labels(*seen.shape), **architecture.call_of(head)}
        if "labels" in given and given["labels"].dim() == 2:
            given["labels"] = given["labels"].masked_fill(~seen, -100)
        ours, theirs = model(**given), reference(**given)
        assert list(ours.keys()) == list(theirs.keys())
        for name, value in ours.items():
            want = theirs[name]
            per_token = value.shape[:2] == seen.shape
            tolerance = 1e-10 if want.dtype == value.dtype else 1e-6  # transformers computes some losses in float32
            want = want.to(value.dtype)
            assert_close(value[seen] if per_token else value, want[seen] if per_token else want, tolerance)


@torch.no_grad()
def test_reads_files_of_the_reference(architecture, batch, tmp_path):
    for head in architecture.heads:
        reference = architecture.reference.save_new(head.__name__, architecture.tiny(), tmp_path / head.__name__)
        model = head.from_pretrained(tmp_path / head.__name__)
        assert not model.load_report.initialised
        assert not model.load_report.unused
        call = architecture.call_of(head)
        ours, theirs = model(**batch, **call), reference(**batch, **call)
        seen = seen_in(batch, architecture)
        for name, value in ours.items():
            per_token = value.shape[:2] == seen.shape
            assert_close(value[seen] if per_token else value, theirs[name][seen] if per_token else theirs[name], 2e-5)


@torch.no_grad()
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_equals_unpadded_and_batch_equals_single(architecture, batch, side):
    if "attention_mask" not in batch:
        pytest.skip("pictures are not padded")
    model = body_of(architecture)
    width = max(LENGTHS)
    positions = torch.arange(width).expand(len(LENGTHS), -1)
    if side == "left":
        shift = [width - n for n in LENGTHS]
        batch = {k: torch.stack([row.roll(s) for row, s in zip(v, shift, strict=True)]) for k, v in batch.items()}
        positions = (positions - torch.tensor(shift)[:, None]).clamp(min=0)
    if "position_ids" in inspect.signature(model.forward).parameters:  # else distances alone count
        rows = model.positions(positions.flatten(), Layout.full(*positions.shape))
        batch["position_ids"] = rows.view_as(positions)
    out = model(**batch, output_hidden_states=True, output_attentions=True)
    for row, length in enumerate(LENGTHS):
        real = batch["attention_mask"][row].bool()
        alone = model(batch["input_ids"][row][real][None], output_hidden_states=True, output_attentions=True)
        if "pooler_output" in out:
            assert_close(out.pooler_output[row], alone.pooler_output[0])
        for a, b in zip(out.hidden_states, alone.hidden_states, strict=True):
            assert_close(a[row][real], b[0])
            assert not a[row][~real].any()
        for a, b in zip(out.attentions, alone.attentions, strict=True):
            if architecture.model_type in WINDOWED:
                continue
            assert_close(a[row][:, real][:, :, real], b[0])
            assert a[row].sum(-1)[:, real].allclose(torch.ones(1, length, dtype=a.dtype))
            assert not a[row][:, :, ~real].any()


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_explicit_equals_fused(architecture, batch, dtype):
    model = body_of(architecture, dtype)
    fused, explicit = model(**batch), model(**batch, output_attentions=True)
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 6e-2}[dtype]
    assert_close(fused.last_hidden_state, explicit.last_hidden_state, tolerance)


@torch.no_grad()
def test_cached_equals_uncached(architecture, batch):
    if architecture.decoder is None:
        pytest.skip(f"{architecture.model_type} has no decoder")
    model = architecture.decoder(architecture.tiny(**architecture.decoder_fields)).double().eval()
    ids, mask = batch["input_ids"], batch["attention_mask"]
    whole = model(ids, attention_mask=mask)
    start = 3
    past = model(ids[:, :start], attention_mask=mask[:, :start], use_cache=True).past_key_values
    for step in range(start, ids.shape[1]):
        out = model(ids[:, step : step + 1], attention_mask=mask[:, : step + 1], past_key_values=past, use_cache=True)
        past = out.past_key_values
        real = mask[:, step].bool()
        assert_close(out.logits[real, 0], whole.logits[real, step])


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"num_beams": 3, "num_return_sequences": 2}], ids=["greedy", "beams"])
def test_generated_with_a_cache_equals_generated_without(architecture, batch, settings):
    if architecture.decoder is None:
        pytest.skip(f"{architecture.model_type} has no decoder")
    model = architecture.decoder(architecture.tiny(**architecture.decoder_fields)).double().eval()
    settings = {"max_new_tokens": 6, "pad_token_id": 0, "eos_token_id": 1, **settings}
    cached, read_again = (model.generate(**batch, **settings, use_cache=each) for each in (True, False))
    assert torch.equal(cached, read_again)


@torch.no_grad()
def test_prepared_weights_compute_the_same(architecture, batch):
    model = body_of(architecture, torch.float32)
    assert prepared(model) is not model
    assert_close(prepared(model)(**batch).last_hidden_state, model(**batch).last_hidden_state, 1e-5)


@torch.no_grad()
def test_eight_bits_are_close_and_survive_saving(architecture, batch, tmp_path):
    for kind in (architecture.body, *list(architecture.heads)[:2]):
        model, call = kind(architecture.tiny()).eval(), architecture.call_of(kind)
        exact, *_ = (each.clamp(-99, 99) for each in model(**batch, **call).to_tuple() if torch.is_tensor(each))
        small = glassformer.quantize(copy.deepcopy(model))
        rounded = small(**batch, **call).to_tuple()
        assert 0 < (rounded[0].clamp(-99, 99) - exact).norm() / exact.norm() < 0.1
        assert sum(each.weight is None for each in small.modules() if isinstance(each, Int8Linear)) > 1
        assert_close(prepared(small)(**batch, **call).to_tuple(), rounded, 1e-5)
        small.save_pretrained(tmp_path / kind.__name__)
        for again in (kind.from_pretrained(tmp_path / kind.__name__), pickle.loads(pickle.dumps(small))):
            assert again.config.quantization_config == small.config.quantization_config
            state = again.state_dict()
            assert all(torch.equal(state[name], value) for name, value in small.state_dict().items())
            assert_close(again(**batch, **call).to_tuple(), rounded, 1e-6)
        with pytest.raises(glassformer.errors.InputError, match=r"quantized to int8 and cannot be|no vocabulary"):
            small.resize_token_embeddings(50)


@torch.no_grad()
def test_round_trip_is_bit_for_bit(architecture, batch, tmp_path):
    for kind in (architecture.body, *architecture.heads):
        model = kind(architecture.tiny()).eval()
        folder = tmp_path / kind.__name__
        for shard, safe in (("5GB", True), ("20KB", True), ("5GB", False)):
            model.save_pretrained(folder, max_shard_size=shard, safe_serialization=safe)
            again = kind.from_pretrained(folder)
            assert again.config == model.config
            for (name, a), (other, b) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
                assert name == other
                assert torch.equal(a, b), name
            call = architecture.call_of(kind)
            ours, theirs = model(**batch, **call), aligned(again)(**batch, **call)
            for a, b in zip(ours.to_tuple(), theirs.to_tuple(), strict=True):
                assert torch.equal(a, b)


def test_published_size(architecture):
    config, count = architecture.published
    assert architecture.body.without_weights(config).num_parameters() == count


def test_gradients(architecture, batch):
    """The stream's gradients equal finite differences, and reach every part."""
    model = body_of(architecture)
    seen = seen_in(batch, architecture)

    weigh = torch.randn(int(seen.sum()), model.config.hidden_size, dtype=torch.float64)

    def loss() -> torch.Tensor:
        out = model(**batch)
        pooled = out.pooler_output.sum() if "pooler_output" in out else 0.0
        return (out.last_hidden_state[seen] * weigh).sum() + pooled

    loss().backward()
    learning = {
        name: parameter for name, parameter in model.named_parameters() if not OF_OPTIONAL_INPUTS & set(name.split("."))
    }
    for name, parameter in learning.items():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()
    generator = torch.Generator().manual_seed(0)
    for parameter in list(learning.values())[::5]:
        direction = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        with torch.no_grad():
            step = 1e-6
            parameter += step * direction
            above = loss()
            parameter -= 2 * step * direction
            below = loss()
            parameter += step * direction
        assert_close((parameter.grad * direction).sum(), (above - below) / (2 * step), 1e-5)


@torch.no_grad()
def test_head_masks_and_pruning(architecture, batch, tmp_path):
    model = body_of(architecture)
    heads = {0: [1], 2: [0, 3]}
    mask = torch.ones(model.config.num_hidden_layers, model.config.num_attention_heads)
    for layer, gone in heads.items():
        mask[layer, gone] = 0
    masked = model(**batch, head_mask=mask, output_attentions=True)
    pruned = copy.deepcopy(model)
    pruned.prune_heads(heads)
    assert pruned.num_parameters() < model.num_parameters()
    assert_close(pruned(**batch).last_hidden_state, masked.last_hidden_state)
    assert not masked.attentions[0][:, 1].any()

    pruned.prune_heads({0: [2]})  # numbers are those of the unpruned model
    pruned.layer(1).attention.prune_heads([0])  # a layer's own way is remembered too
    mask[0, 2], mask[1, 0] = 0, 0
    assert_close(pruned(**batch).last_hidden_state, model(**batch, head_mask=mask).last_hidden_state)
    pruned.save_pretrained(tmp_path)
    again = architecture.body.from_pretrained(tmp_path, dtype=torch.float64)
    assert again.config.pruned_heads == {0: [1, 2], 1: [0], 2: [0, 3]}
    assert torch.equal(aligned(again)(**batch).last_hidden_state, pruned(**batch).last_hidden_state)
    with pytest.raises(glassformer.InputError, match="keep at least one"):
        again.prune_heads({0: [0, 3]})
    with pytest.raises(glassformer.InputError, match="heads 0 to 3"):
        again.prune_heads({0: [4]})


@torch.no_grad()
def test_compiled_equals_plain(architecture, batch):
    model = body_of(architecture, torch.float32)
    compiled = torch.compile(model, backend="eager")
    assert_close(compiled(**batch).last_hidden_state, model(**batch).last_hidden_state, 1e-6)


def test_checkpointing_keeps_gradients(architecture, batch):
    plain = body_of(architecture).train()
    for module in plain.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    frugal = copy.deepcopy(plain)
    frugal.gradient_checkpointing_enable()
    assert frugal.is_gradient_checkpointing
    for model in (plain, frugal):
        model(**batch).last_hidden_state.square().sum().backward()
    for a, b in zip(plain.parameters(), frugal.parameters(), strict=True):
        if a.grad is not None:
            assert_close(a.grad, b.grad)


@torch.no_grad()
def test_bfloat16_products_are_close_and_the_rest_is_float32(architecture, batch, tmp_path):
    for kind in (architecture.body, *list(architecture.heads)[:2]):
        call = architecture.call_of(kind)
        exact_model = kind(architecture.tiny()).eval()
        exact_model.save_pretrained(tmp_path / kind.__name__)
        model = kind.from_pretrained(tmp_path / kind.__name__, dtype="bfloat16")
        assert (model.dtype, model.stream_dtype) == (torch.bfloat16, torch.float32)
        rounded = model(**batch, **call).to_tuple()
        exact, *_ = (each.clamp(-99, 99) for each in exact_model(**batch, **call).to_tuple() if torch.is_tensor(each))
        assert rounded[0].dtype == torch.float32
        assert 0 < (rounded[0].clamp(-99, 99) - exact).norm() / exact.norm() < 0.05
        assert prepared(model) is not model
        again = prepared(model)(**batch, **call).to_tuple()[0]
        assert (again.clamp(-99, 99) - exact).norm() / exact.norm() < 0.05
