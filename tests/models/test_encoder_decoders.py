"""The contract that every encoder-decoder keeps."""

from __future__ import annotations

import copy

import pytest
import torch

import glassformer
from glassformer import AutoModel, AutoModelForSeq2SeqLM
from glassformer.nn.cache import Cache
from glassformer.nn.layout import Layout

from .encoder_decoders import ENCODER_DECODERS, EncoderDecoder

SOURCES, TARGETS = (9, 4, 1, 7, 4), (3, 8, 5, 1, 8)
VARIANTS = [(each, name) for each in ENCODER_DECODERS for name in each.variants]


@pytest.fixture(params=VARIANTS, ids=lambda one: f"{one[0].model_type}, {one[1]}")
def variant(request) -> tuple[EncoderDecoder, dict]:
    torch.manual_seed(0)
    architecture, name = request.param
    return architecture, architecture.variants[name]


@pytest.fixture
def model(variant):
    architecture, fields = variant
    return architecture.model(architecture.tiny(**fields)).double().eval()


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)

    def padded(lengths, names):
        mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
        ids = torch.randint(5, 50, mask.shape) * mask
        return dict(zip(names, (ids, mask), strict=True))

    names = ("input_ids", "attention_mask")
    return {**padded(SOURCES, names), **padded(TARGETS, [f"decoder_{name}" for name in names])}


def labels_of(batch):
    return batch["decoder_input_ids"].masked_fill(batch["decoder_attention_mask"] == 0, -100)


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def test_padded_equals_unpadded_and_batch_equals_single(model, batch):
    out = model(**batch, output_hidden_states=True, output_attentions=True)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = model(
            batch["input_ids"][row : row + 1, :source],
            decoder_input_ids=batch["decoder_input_ids"][row : row + 1, :target],
            output_hidden_states=True,
            output_attentions=True,
        )
        assert_close(out.logits[row, :target], alone.logits[0])
        assert_close(out.encoder_last_hidden_state[row, :source], alone.encoder_last_hidden_state[0])
        for name, rows, columns in (
            ("encoder_attentions", source, source),
            ("decoder_attentions", target, target),
            ("cross_attentions", target, source),
        ):
            for a, b in zip(getattr(out, name) or (), getattr(alone, name) or (), strict=True):
                assert_close(a[row, :, :rows, :columns], b[0])
                assert not a[row, :, rows:].any()
                assert not a[row, :, :, columns:].any()


@torch.no_grad()
def test_eight_bits_are_close_and_survive_saving(variant, batch, tmp_path):
    architecture, fields = variant
    model = architecture.model(architecture.tiny(**fields)).eval()
    exact = model(**batch).logits
    small = glassformer.quantize(model)
    rounded = small(**batch).logits
    assert 0 < (rounded - exact).norm() / exact.norm() < 0.1
    small.save_pretrained(tmp_path)
    torch.testing.assert_close(type(model).from_pretrained(tmp_path)(**batch).logits, rounded, rtol=0, atol=1e-5)


@torch.no_grad()
def test_explicit_equals_fused(model, batch):
    fused, explicit = model(**batch), model(**batch, output_attentions=True)
    assert_close(fused.logits, explicit.logits)


@torch.no_grad()
def test_no_word_attends_to_later_ones(model, batch):
    seen = model(**batch).logits
    other = {**batch, "decoder_input_ids": batch["decoder_input_ids"].clone()}
    other["decoder_input_ids"][:, 2:] = 7
    changed = model(**other).logits
    assert_close(seen[:, :2], changed[:, :2])
    assert not torch.allclose(seen[1, 2:], changed[1, 2:])


@torch.no_grad()
def test_cached_equals_uncached(model, batch):
    if model.decoding_body.keeps_state:
        pytest.skip("what it keeps is a state; generation with and without is compared below")
    ids, mask = batch["decoder_input_ids"], batch["decoder_attention_mask"]
    source = model.source_for(batch["input_ids"], batch["attention_mask"])
    whole = model(**batch).logits
    cache = Cache(model.decoding_body.layer_count, ids.shape[1])
    out = model.decoding_body.encode(ids[:, :2], mask[:, :2], past_key_values=cache, **source)
    assert_close(model.word_logits(out.last_hidden_state)[1], whole[1, :2])
    for step in range(2, ids.shape[1]):
        places = model.decoding_body.positions(torch.full((len(ids),), step), Layout.full(len(ids), 1))
        given = {"position_ids": places[:, None], "past_key_values": cache, **source}
        out = model.decoding_body.encode(ids[:, step : step + 1], mask[:, : step + 1], **given)
        real = mask[:, step].bool()
        assert_close(model.word_logits(out.rows)[real], whole[real, step])


@torch.no_grad()
def test_the_source_is_read_once(model, batch):
    read = []
    if model.decoding_body.keeps_state:
        pytest.skip("without attention layers there is nothing to keep")
    model.encoder.stack.register_forward_hook(lambda *_: read.append("call"))
    project = model.decoding_body.stack.layer[0].crossattention.self.key
    project.register_forward_hook(lambda *_: read.append("keys"))
    model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=6, num_beams=2)
    assert read == ["call", "keys"]  # each of them once


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_beams": 3, "num_return_sequences": 2},
        {"do_sample": True, "top_k": 0},
        {"penalty_alpha": 0.4, "top_k": 3},
    ],
    ids=["greedy", "beams", "sampling", "contrastive"],
)
def test_generation(model, batch, settings):
    source = {"inputs": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    seeds = {"generator": list(range(len(SOURCES)))} if "do_sample" in settings else {}
    together = model.generate(**source, max_new_tokens=9, **settings, **seeds)
    assert (together[:, 0] == model.start_token()).all()
    assert_equal_texts(together, model.generate(**source, max_new_tokens=9, use_cache=False, **settings, **seeds))
    each = len(together) // len(SOURCES)
    for row, length in enumerate(SOURCES):
        seed = {"generator": [row]} if seeds else {}
        alone = model.generate(batch["input_ids"][row : row + 1, :length], max_new_tokens=9, **settings, **seed)
        assert_equal_texts(together[row * each : (row + 1) * each], alone)


def assert_equal_texts(a, b):
    """Equal but for the padding behind the shorter ones."""
    width = min(a.shape[1], b.shape[1])
    assert torch.equal(a[:, :width], b[:, :width])
    assert not a[:, width:].any()
    assert not b[:, width:].any()


@torch.no_grad()
def test_greedy_is_the_best_word_each_time(model, batch):
    """The searches write what reading everything anew at each step would."""
    source = {"input_ids": batch["input_ids"][:1], "attention_mask": batch["attention_mask"][:1]}
    said = torch.tensor([[model.start_token()]])
    for _ in range(5):
        best = model(**source, decoder_input_ids=said).logits[:, -1].argmax(-1)
        said = torch.cat((said, best[:, None]), 1)
        if int(best) == model.config.eos_token_id:
            break
    assert_equal_texts(model.generate(batch["input_ids"][:1], max_new_tokens=5), said)


@torch.no_grad()
def test_the_first_token_can_be_chosen(model, batch):
    said = model.generate(batch["input_ids"][:1], max_new_tokens=2, decoder_start_token_id=7)
    assert said[0, 0] == 7
    begun = torch.tensor([[7, 8]])
    assert model.generate(batch["input_ids"][:1], decoder_input_ids=begun, max_new_tokens=2)[:, :2].tolist() == [[7, 8]]
    with pytest.raises(glassformer.InputError, match=r"decoder_input_ids must have the shape \[1, length\]"):
        model.generate(batch["input_ids"][:1], decoder_input_ids=begun.repeat(2, 1), max_new_tokens=2)
    with pytest.raises(glassformer.InputError, match="source 0 is empty"):
        model.generate(torch.zeros(1, 0).long(), max_new_tokens=2)


@torch.no_grad()
def test_labels_are_shifted_and_their_loss_is_the_mean(model, batch):
    labels = labels_of(batch)
    out = model(batch["input_ids"], batch["attention_mask"], labels=labels)
    read = torch.cat((torch.full((len(labels), 1), model.start_token()), labels[:, :-1].clamp(min=0)), 1)
    logits = model(batch["input_ids"], batch["attention_mask"], read).logits
    chances = logits.log_softmax(-1)
    losses = [
        -chances[i, t, label] for i, row in enumerate(labels.tolist()) for t, label in enumerate(row) if label >= 0
    ]
    assert_close(out.loss, torch.stack(losses).mean())


@torch.no_grad()
def test_round_trip_is_bit_for_bit(variant, model, batch, tmp_path):
    architecture, _ = variant
    model = model.float()
    for shard, safe in (("5GB", True), ("20KB", True), ("5GB", False)):
        model.save_pretrained(tmp_path, max_shard_size=shard, safe_serialization=safe)
        has_own_body = AutoModel.model_class(model.config) is not architecture.model
        for kind in (architecture.model, AutoModelForSeq2SeqLM, *(() if has_own_body else (AutoModel,))):
            again = kind.from_pretrained(tmp_path)
            assert type(again) is architecture.model
            assert again.config == model.config
            assert not again.load_report.unused
            assert not again.load_report.initialised
            for (name, a), (other, b) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
                assert name == other
                assert torch.equal(a, b), name
            assert_close(again(**batch).logits, model(**batch).logits, 1e-6)  # files are not aligned as memory is


def test_a_checkpoint_without_its_decoder_is_refused(variant, model, tmp_path):
    model.save_pretrained(tmp_path)
    from safetensors.torch import load_file, save_file

    weights = load_file(tmp_path / "model.safetensors")
    gone = next(name for name in weights if name.startswith("decoder."))
    save_file({name: tensor for name, tensor in weights.items() if name != gone}, tmp_path / "model.safetensors")
    ours = next(iter(model.keymap.to_ours(gone, prefixed=False)))
    with pytest.raises(glassformer.WeightsError, match=ours):
        variant[0].model.from_pretrained(tmp_path)


def test_gradients(model, batch):
    """The stream's gradients equal finite differences, and reach every part."""
    labels = labels_of(batch)

    def loss() -> torch.Tensor:
        return model(batch["input_ids"], batch["attention_mask"], labels=labels).loss

    loss().backward()
    parameters = {name: each for name, each in model.named_parameters() if "pooler" not in name}  # it has no part in it
    for name, parameter in parameters.items():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()
    generator = torch.Generator().manual_seed(0)
    for parameter in list(parameters.values())[::7]:
        direction = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        with torch.no_grad():
            step = 1e-6
            parameter += step * direction
            above = loss()
            parameter -= 2 * step * direction
            below = loss()
            parameter += step * direction
        assert_close((parameter.grad * direction).sum(), (above - below) / (2 * step), 1e-5)


def test_checkpointing_keeps_gradients(model, batch):
    if not model.layers:
        with pytest.raises(glassformer.InputError, match="gradient checkpointing is for stacks"):
            model.gradient_checkpointing_enable()
        return
    plain = model.train()
    for module in plain.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    frugal = copy.deepcopy(plain)
    frugal.gradient_checkpointing_enable()
    assert frugal.is_gradient_checkpointing
    for each in (plain, frugal):
        each(batch["input_ids"], batch["attention_mask"], labels=labels_of(batch)).loss.backward()
    for a, b in zip(plain.parameters(), frugal.parameters(), strict=True):
        if a.grad is not None:
            assert_close(a.grad, b.grad)


@torch.no_grad()
def test_head_masks_and_pruning(model, batch, tmp_path):
    """Heads are numbered through: those of the encoder's layers, then those of the decoder's own attention."""
    if not model.layers:
        with pytest.raises(glassformer.InputError, match="no heads to mask"):
            model(**batch, head_mask=torch.ones(4))
        return
    encoder, decoder = (torch.ones(half.layer_count, 4) for half in (model.encoder, model.decoding_body))
    encoder[1, 2] = decoder[0, 0] = decoder[0, 3] = 0
    crossing = torch.ones_like(decoder)
    masks = {"head_mask": encoder, "decoder_head_mask": decoder, "cross_attn_head_mask": crossing}
    masked = model(**batch, **masks, output_attentions=True)
    assert not masked.encoder_attentions[1][:, 2].any()
    pruned = copy.deepcopy(model)
    if getattr(model.config, "tie_encoder_decoder", False):
        with pytest.raises(glassformer.InputError, match="share their heads"):
            pruned.prune_heads({1: [2]})
        return
    below = model.encoder.layer_count
    pruned.prune_heads({1: [2], below: [0, 3]})
    assert_close(pruned(**batch).logits, masked.logits)
    pruned.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    assert_close(again(**batch).logits, pruned(**batch).logits, 1e-13)
    crossing[1] = 0
    blind = model(**batch, cross_attn_head_mask=crossing, output_attentions=True)
    assert not blind.cross_attentions[1].any()
    assert not torch.allclose(blind.logits, model(**batch).logits)
    with pytest.raises(glassformer.InputError, match="heads or layers x heads"):
        model(**batch, head_mask=torch.ones(3))


@pytest.mark.parametrize("architecture", ENCODER_DECODERS, ids=lambda one: one.model_type)
def test_published_size(architecture):
    config, count = architecture.published
    assert architecture.model.without_weights(config).num_parameters() == count


@torch.no_grad()
def test_unusable_inputs_are_reported(model, batch):
    high = model.get_input_embeddings().num_embeddings
    wrong = batch["input_ids"].clone()
    wrong[1, 2] = high
    for given, message in (
        ({**batch, "input_ids": wrong}, rf"^input_ids: id {high} at \[1, 2\]"),
        ({**batch, "decoder_input_ids": batch["decoder_input_ids"] + 1000}, "^decoder_input_ids: id "),
        ({**batch, "input_ids": batch["input_ids"][:3]}, "attention_mask must have shape"),
        ({"input_ids": batch["input_ids"]}, "decoder_input_ids, or labels"),
        ({"decoder_input_ids": batch["input_ids"]}, "give the source"),
        ({**batch, "input_ids": torch.full((5, 41), 5), "attention_mask": None}, "41 positions are more than"),
        ({**batch, "input_ids": torch.full((2, 4), 5), "attention_mask": None}, "as many sources, got 2"),
    ):
        if "positions" in message and model.encoder.max_length is None:
            continue  # distances have no end
        with pytest.raises(glassformer.InputError, match=message):
            model(**given)
    with pytest.raises(glassformer.ArgumentError, match="did you mean 'labels'"):
        model(**batch, labls=None)
    target = batch["decoder_input_ids"]
    for states in (0.5, "", {}, (), torch.ones(5, 3, 4)):
        with pytest.raises(glassformer.InputError, match=r"encoder_outputs must be .* \(last_hidden_state,\), got "):
            model(encoder_outputs=states, decoder_input_ids=target)
    with pytest.raises(glassformer.InputError, match=r"encoder_outputs\[0\] must be floating-point numbers"):
        model(encoder_outputs=(target,), decoder_input_ids=target)
    with pytest.raises(glassformer.InputError, match="decoder_input_ids is on the device meta"):
        model.generate(batch["input_ids"], decoder_input_ids=target.to("meta"), max_new_tokens=1)
