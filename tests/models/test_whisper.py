"""Whisper beside transformers, and the contract of encoder-decoders for a model whose source is sound."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import (
    AutoModel,
    AutoModelForAudioClassification,
    AutoModelForSpeechSeq2Seq,
    ConfigError,
    InputError,
    WhisperConfig,
    WhisperForAudioClassification,
    WhisperForConditionalGeneration,
    WhisperModel,
)
from glassformer.generate.config import GenerationConfig
from glassformer.models.whisper_layers import hide_parts
from glassformer.models.whisper_openai import generation_settings, renamed
from glassformer.nn.cache import Cache
from glassformer.nn.prepared import prepared

from .encoder_decoders import WHISPER, tiny_whisper

CLASSES = [WhisperModel, WhisperForConditionalGeneration, WhisperForAudioClassification]
SETTINGS = {
    "decoder_start_token_id": 81,
    "eos_token_id": 80,
    "bos_token_id": 80,
    "pad_token_id": 80,
    "no_timestamps_token_id": 89,
    "max_initial_timestamp_index": 5,
    "begin_suppress_tokens": [10, 80],
    "suppress_tokens": [1, 2, 3, 81, 82, 83, 84, 85],
    "lang_to_id": {"<|en|>": 82, "<|de|>": 83},
    "task_to_id": {"transcribe": 84, "translate": 85},
    "is_multilingual": True,
    "max_length": 30,
    "alignment_heads": [[0, 1]],
    "prev_sot_token_id": 86,
}


@pytest.fixture(params=list(WHISPER.variants))
def config(request) -> WhisperConfig:
    torch.manual_seed(0)
    return tiny_whisper(**WHISPER.variants[request.param])


@pytest.fixture
def model(config) -> WhisperForConditionalGeneration:
    model = WhisperForConditionalGeneration(config).double().eval()
    model.generation_config = GenerationConfig.from_dict(SETTINGS)
    return model


@pytest.fixture
def sound() -> torch.Tensor:
    return torch.randn(3, 8, 24, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.randint(10, 80, (3, 6), generator=torch.Generator().manual_seed(4))


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def inputs_for(kind, sound, ids):
    if kind is WhisperForAudioClassification:
        return {"input_features": sound, "labels": torch.tensor([0, 1, 1])}
    return {"input_features": sound, ("decoder_input_ids" if kind is WhisperModel else "labels"): ids}


def compare(ours, theirs, tolerance):
    assert set(ours) <= set(theirs)
    for name, value in ours.items():
        if isinstance(value, torch.Tensor):
            assert_close(value, theirs[name], tolerance)
        elif name != "past_key_values":
            for a, b in zip(value, theirs[name], strict=True):
                assert_close(a, b, tolerance)


@torch.no_grad()
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("fields", [{}, {"use_weighted_layer_sum": True}], ids=["", "mixed"])
def test_equals_transformers(config, kind, fields, sound, ids, tmp_path):
    transformers = pytest.importorskip("transformers")
    if fields and kind is not WhisperForAudioClassification:
        return
    model = kind(WhisperConfig.from_dict({**config.to_dict(), **fields})).double().eval()
    model.save_pretrained(tmp_path)
    reference, info = getattr(transformers, kind.__name__).from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    given = {**inputs_for(kind, sound.double(), ids), "output_hidden_states": True, "output_attentions": True}
    compare(model(**given), reference.eval()(**given), 1e-10)
    reference.float().save_pretrained(tmp_path / "theirs")
    again = kind.from_pretrained(tmp_path / "theirs")
    assert not again.load_report.initialised and not again.load_report.unused
    given = inputs_for(kind, sound, ids)
    compare(again(**given), reference(**given), 1e-5)


OLD = """
import sys, torch, transformers
from safetensors.torch import load_file, save_file
folder = sys.argv[1]
for name in ("WhisperModel", "WhisperForConditionalGeneration", "WhisperForAudioClassification"):
    model = getattr(transformers, name).from_pretrained(f"{folder}/{name}").eval()
    with torch.no_grad():
        out = model(**load_file(f"{folder}/{name}.inputs"))
        values = {key: value.contiguous() for key, value in out.items() if torch.is_tensor(value)}
        if name == "WhisperForConditionalGeneration":
            sound = load_file(f"{folder}/{name}.inputs")["input_features"]
            for key, more in {"greedy": {}, "beams": {"num_beams": 3}, "times": {"return_timestamps": True}}.items():
                values[key] = model.generate(sound, language="de", task="translate", max_new_tokens=20, **more)
    save_file(values, f"{folder}/{name}.outputs")
    model.save_pretrained(f"{folder}/{name}.again")
"""


@torch.no_grad()
def test_equals_transformers_4(sound, ids, tmp_path):
    """Outputs of every class, generated sequences, and files both ways."""
    interpreter = Path(".peers/transformers4/bin/python")
    if not interpreter.exists():
        pytest.skip("transformers 4 is not installed: ./test.sh installs it")
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    models = {}
    for kind in CLASSES:
        models[kind] = model = kind(tiny_whisper()).eval()
        if kind is WhisperForConditionalGeneration:
            model.generation_config = GenerationConfig.from_dict(SETTINGS)
        model.save_pretrained(tmp_path / kind.__name__)
        save_file(inputs_for(kind, sound, ids), tmp_path / f"{kind.__name__}.inputs")
    subprocess.run([interpreter.absolute(), "-c", OLD, tmp_path], check=True, capture_output=True)
    for kind, model in models.items():
        theirs, ours = load_file(tmp_path / f"{kind.__name__}.outputs"), model(**inputs_for(kind, sound, ids))
        for name in ours:
            if name in theirs:
                assert_close(ours[name], theirs[name], 1e-5)
        again = kind.from_pretrained(tmp_path / f"{kind.__name__}.again")
        assert not again.load_report.initialised and not again.load_report.unused
        for (name, a), b in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
            assert torch.equal(a, b), name
    writer, theirs = (
        models[WhisperForConditionalGeneration],
        load_file(tmp_path / "WhisperForConditionalGeneration.outputs"),
    )
    told = {"language": "de", "task": "translate", "max_new_tokens": 20}
    for key, more in {"greedy": {}, "beams": {"num_beams": 3}, "times": {"return_timestamps": True}}.items():
        assert writer.generate(sound, **told, **more).tolist() == theirs[key].tolist(), key


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"language": "german"},
        {"language": ["en", "de", "en"], "task": "translate"},
        {"language": "en", "return_timestamps": True},
        {"language": "en", "num_beams": 3, "generator": None},
        {"language": "en", "prompt_ids": torch.tensor([86, 20, 21])},
    ],
    ids=lambda settings: ", ".join(settings) or "nothing",
)
def test_writes_what_transformers_writes(model, sound, settings, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = model.float()
    model.save_pretrained(tmp_path)
    reference = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path).eval()
    ours = model.generate(sound, max_new_tokens=20, **settings)
    theirs = reference.generate(sound, max_new_tokens=20, force_unique_generate_call=True, **settings)
    assert ours.tolist() == theirs.tolist()
    memory = model.encoder.encode(input_features=sound).last_hidden_state
    again = model.generate(encoder_outputs=(memory,), max_new_tokens=20, use_cache=False, **settings)
    assert torch.equal(ours, again)
    if not isinstance(settings.get("language"), list):
        for row in range(3):  # a batch writes what each window alone does
            alone = model.generate(sound[row : row + 1], max_new_tokens=20, **settings)[0].tolist()
            width = min(len(alone), ours.shape[1])
            assert ours[row, :width].tolist() == alone[:width]


@torch.no_grad()
def test_looking_caching_and_preparing_change_nothing(model, sound, ids):
    sound = sound.double()
    whole = model(sound, decoder_input_ids=ids).logits
    assert_close(model(sound, decoder_input_ids=ids, output_attentions=True).logits, whole)
    memory = model.encoder.encode(input_features=sound).last_hidden_state
    cache = Cache(model.decoding_body.layer_count, ids.shape[1])
    for begin, end in ((0, 2), (2, 3), (3, 6)):
        out = model.decoding_body.encode(ids[:, begin:end], past_key_values=cache, encoder_hidden_states=memory)
        assert_close(model.word_logits(out.last_hidden_state), whole[:, begin:end])
    single = model.float()
    assert_close(prepared(single)(sound.float(), decoder_input_ids=ids).logits, whole.float(), 1e-5)


def test_gradients(model, sound, ids):
    sound = sound.double()

    def loss() -> torch.Tensor:
        return model(sound, labels=ids).loss

    loss().backward()
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    assert set(dict(model.named_parameters())) - set(trained) == {"model.encoder.embeddings.position_embeddings.weight"}
    for name, parameter in list(trained.items())[::5]:
        direction = torch.randn(parameter.shape, dtype=parameter.dtype)
        with torch.no_grad():
            parameter += 1e-6 * direction
            above = loss()
            parameter -= 2e-6 * direction
            below = loss()
            parameter += 1e-6 * direction
        assert_close((parameter.grad * direction).sum(), (above - below) / 2e-6, 1e-5)
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
def test_head_masks_and_pruning(model, sound, ids, tmp_path):
    sound = sound.double()
    encoder = torch.ones(2, model.config.num_attention_heads)
    decoder = torch.ones(3, model.config.decoder_heads)
    encoder[1, 2] = decoder[0, 1] = 0
    masks = {"head_mask": encoder, "decoder_head_mask": decoder, "cross_attn_head_mask": torch.ones_like(decoder)}
    masked = model(sound, decoder_input_ids=ids, **masks)
    pruned = copy.deepcopy(model)
    pruned.prune_heads({1: [2], 2: [1]})
    assert_close(pruned(sound, decoder_input_ids=ids).logits, masked.logits)
    pruned.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    assert_close(again(sound, decoder_input_ids=ids).logits, pruned(sound, decoder_input_ids=ids).logits)


@torch.no_grad()
def test_captured_quantized_and_adapted_like_any_other(model, sound, ids):
    with model.capture({0: [1]}, cross={3: [0]}) as seen:
        out = model(sound.double(), decoder_input_ids=ids, output_attentions=True)
    assert_close(seen.attention[0][:, 0], out.encoder_attentions[0][:, 1])
    assert_close(seen.cross[3][:, 0], out.cross_attentions[1][:, 0])
    small = glassformer.quantize(copy.deepcopy(model).float())
    assert small(sound, decoder_input_ids=ids).logits.isfinite().all()
    glassformer.add_lora(model, glassformer.LoraConfig(target_modules=["q_proj", "v_proj"]))
    assert sum(p.requires_grad for p in model.parameters()) == 2 * (2 + 3 + 3) * 2


@torch.no_grad()
def test_round_trip_and_auto_classes(config, model, sound, ids, tmp_path):
    model = model.float()
    model.save_pretrained(tmp_path)
    for kind in (WhisperForConditionalGeneration, AutoModelForSpeechSeq2Seq):
        again = kind.from_pretrained(tmp_path)
        assert type(again) is WhisperForConditionalGeneration and again.config == model.config
        assert again.generation_config == model.generation_config
        assert_close(again(sound, decoder_input_ids=ids).logits, model(sound, decoder_input_ids=ids).logits, 1e-6)
    assert type(AutoModel.from_pretrained(tmp_path)) is WhisperModel
    classifier = AutoModelForAudioClassification.from_pretrained(tmp_path)
    assert classifier.load_report.initialised == ["projector", "classifier"]
    published, count = WHISPER.published
    assert WhisperForConditionalGeneration.without_weights(published).num_parameters() == count


def test_training_hides_parts_of_the_spectrogram():
    config = tiny_whisper(apply_spec_augment=True, mask_time_prob=0.5, mask_time_length=3, mask_feature_prob=0.3)
    config.mask_feature_length = 2
    torch.manual_seed(0)
    hidden = hide_parts(torch.ones(5, 8, 24), config)
    columns, bands = (hidden == 0).all(1).sum(1), (hidden == 0).all(2).sum(1)
    assert (columns >= 3).all() and (bands >= 2).all() and bool(hidden.any())
    with torch.no_grad():
        model = WhisperModel(config)
        given = {"input_features": torch.randn(1, 8, 24), "decoder_input_ids": torch.tensor([[81]])}
        assert not torch.equal(model.train()(**given)[0], model(**given)[0])
        assert torch.equal(model.eval()(**given)[0], model(**given)[0])


OPENAI = {
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "layers": "blocks",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "final_layer_norm": "mlp_ln",
    "self_attn": "attn",
    "encoder_attn": "cross_attn",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "embed_tokens": "token_embedding",
    "layer_norm": "ln",
}


@torch.no_grad()
def test_openai_files(sound, ids, tmp_path):
    from safetensors.torch import load_file

    torch.manual_seed(0)
    # Heads of theirs are as wide in both halves, and layers four times as wide inside.
    model = WhisperForConditionalGeneration(tiny_whisper(intermediate_size=64)).eval()
    model.save_pretrained(tmp_path / "ours")
    weights = {}
    for name, value in load_file(tmp_path / "ours" / "model.safetensors").items():
        theirs = ".".join(OPENAI.get(part, part) for part in name.removeprefix("model.").split("."))
        theirs = theirs.replace("embed_positions.weight", "positional_embedding").replace(
            "encoder.ln.", "encoder.ln_post."
        )
        weights[theirs] = value
        assert f"model.{renamed(theirs)}" == name
    dims = {"n_mels": 8, "n_vocab": 120, "n_audio_ctx": 12, "n_audio_state": 16, "n_audio_head": 4, "n_audio_layer": 2}
    dims |= {"n_text_ctx": 40, "n_text_state": 16, "n_text_head": 4, "n_text_layer": 3}
    torch.save({"dims": dims, "model_state_dict": weights}, tmp_path / "tiny.pt")
    for where in (tmp_path / "tiny.pt", tmp_path):
        again = WhisperForConditionalGeneration.from_pretrained(where)
        assert not again.load_report.unused and not again.load_report.initialised
        assert torch.equal(again(sound, decoder_input_ids=ids).logits, model(sound, decoder_input_ids=ids).logits)
    body = WhisperModel.from_pretrained(tmp_path / "tiny.pt")
    assert_close(body(sound, decoder_input_ids=ids)[0], model.model(sound, decoder_input_ids=ids)[0], 1e-6)
    torch.save({"dims": {**dims, "n_mels": "8"}, "model_state_dict": weights}, tmp_path / "tiny.pt")
    with pytest.raises(ConfigError, match=r"tiny\.pt: dims\.n_mels must be an integer"):
        WhisperForConditionalGeneration.from_pretrained(tmp_path / "tiny.pt")
    torch.save(weights, tmp_path / "tiny.pt")
    with pytest.raises(glassformer.DamagedFileError, match="holds no model_state_dict"):
        WhisperForConditionalGeneration.from_pretrained(tmp_path / "tiny.pt")


def test_settings_of_openai_files_are_those_published(tmp_path):
    """Token ids by arithmetic, beside those of the published generation_config.json."""
    english = generation_settings(WhisperConfig(vocab_size=51864), "tiny.en")
    assert english["no_timestamps_token_id"] == 50362 and not english["is_multilingual"]
    assert english["prev_sot_token_id"] == 50360 and english["alignment_heads"][0] == [1, 0]
    many = WhisperConfig(vocab_size=51866, eos_token_id=50257, decoder_start_token_id=50258)
    settings = generation_settings(many, "unknown")
    assert settings["no_timestamps_token_id"] == 50364 and settings["lang_to_id"]["<|yue|>"] == 50358
    assert settings["task_to_id"] == {"transcribe": 50360, "translate": 50359}
    assert settings["alignment_heads"] == [[layer, head] for layer in (2, 3) for head in range(6)]
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    assert GenerationConfig.from_pretrained(tmp_path).forced_decoder_ids == [[1, None], [2, 50360]]


@torch.no_grad()
def test_unusable_inputs_are_reported(model, sound, ids):
    for given, message in (
        ({"input_features": sound[:, :, :20], "decoder_input_ids": ids}, r"the shape B 8 24 .* got \[3, 8, 20\]"),
        ({"input_features": sound, "decoder_input_ids": ids + 100}, "^decoder_input_ids: id "),
        ({"decoder_input_ids": ids}, "give the source: input_features"),
        ({"input_features": sound}, "decoder_input_ids, or labels"),
        ({"input_features": ids, "decoder_input_ids": ids}, "input_features must"),
    ):
        with pytest.raises(InputError, match=message):
            model(**given)
    for given, message in (
        ({"language": "klingon"}, "Whisper knows no language 'klingon'"),
        ({"language": "fr"}, "the model has no token <|fr|>"),
        ({"language": ["en", "de"]}, "3 windows need one language or as many, got 2"),
        ({"language": "en", "task": "write"}, "task must be 'transcribe' or 'translate'"),
        ({"decoder_input_ids": ids, "task": "transcribe"}, "leave language, task and prompt_ids out"),
        ({"encoder_hidden_states": torch.zeros(3, 12, 16)}, "pass encoder_outputs=(last_hidden_state,)"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            model.generate(sound, **given)
    for states in (0.5, (), {}, torch.zeros(3, 12, 16)):
        with pytest.raises(InputError, match="encoder_outputs must be what an encoder returned"):
            model.generate(encoder_outputs=states)
        with pytest.raises(InputError, match="encoder_outputs must be what an encoder returned"):
            WhisperForAudioClassification(tiny_whisper()).eval()(encoder_outputs=states)
    mixing = WhisperForAudioClassification(tiny_whisper(use_weighted_layer_sum=True)).eval()
    states = (torch.zeros(3, 12, 16),) * 3
    assert mixing(encoder_outputs=(states[0], states)).logits.shape == (3, 2)
    for wrong in (
        (states[0].half().to("meta"),),
        states[:1],
        (states[0], states[:2]),
        (states[0], 5),
        (states[0], (None,) * 3),
        (states[0][..., :5],),
    ):
        with pytest.raises(InputError, match="encoder_outputs"):
            mixing(encoder_outputs=wrong)
    with pytest.raises(ConfigError, match=r"must be odd, got 4"):
        tiny_whisper(median_filter_width=4)
