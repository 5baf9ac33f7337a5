"""glass export and glass verify --exported: files that onnxruntime and llama.cpp compute as the model does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer.cli.main import main
from glassformer.export.onnx_file import OnnxModel

from ..generate.tiny_gpt2 import TEXTS, write_tiny_gpt2
from .test_predict import make

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main([*map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("export") / "model", "SequenceClassification")


@pytest.fixture(scope="module")
def writer(tmp_path_factory) -> Path:
    return write_tiny_gpt2(tmp_path_factory.mktemp("export") / "gpt2")


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "out"
    assert main(["export", str(classifier), "--to", "onnx", "-o", str(folder)]) == 0
    return folder


def test_a_classifier_answers_in_onnxruntime_as_here(classifier, exported):
    session = ort.InferenceSession(str(exported / "model.onnx"))
    pipe = glassformer.pipeline("text-classification", model=classifier)
    tokenizer = glassformer.AutoTokenizer.from_pretrained(exported)  # it lies beside the file
    config = glassformer.AutoConfig.from_pretrained(exported)
    for texts in (
        ["so good"],
        ["the cat sat on the mat .", "so bad", "today"],
    ):  # other sizes than those it was made with
        inputs = {name: np.array(value) for name, value in tokenizer(texts, padding=True).items()}
        (logits,) = session.run(["logits"], {each.name: inputs[each.name] for each in session.get_inputs()})
        for row, answer in zip(torch.from_numpy(logits).softmax(-1), pipe(texts), strict=True):
            assert config.id2label[int(row.argmax())] == answer["label"]
            assert row.max().item() == pytest.approx(answer["score"], abs=1e-5)


def test_verify_compares_the_file_with_the_folder(classifier, exported, tmp_path, capsys):
    file = exported / "model.onnx"
    shown, _ = run(capsys, "verify", classifier, "--exported", file)
    assert shown.splitlines()[-1] == "agrees within 0.0001"
    other = make(tmp_path / "other", "SequenceClassification", seed=1)
    found = json.loads(run(capsys, "verify", other, "so good", "bad", "--exported", file, "--json", code=1)[0])
    assert not found["agrees"] and found["differences"]["logits"] > 1e-3
    _, error = run(capsys, "verify", make(tmp_path / "qa", "QuestionAnswering"), "--exported", file, code=1)
    assert "has no output end_logits, start_logits" in error


def test_a_model_that_computes_something_else_is_not_written(classifier, tmp_path, capsys, monkeypatch):
    def wrong(self, inputs):
        return {"logits": torch.zeros(3, 2)}

    monkeypatch.setattr(OnnxModel, "run_from_start", wrong)
    _, error = run(capsys, "export", classifier, "--to", "onnx", "-o", tmp_path / "out", code=1)
    assert "differs" in error and "logits by" in error
    assert not list((tmp_path / "out").glob("*"))


def test_generation_with_the_cache_of_the_file_is_that_of_the_model(writer, tmp_path, capsys):
    run(capsys, "export", writer, "--to", "onnx", "-o", tmp_path / "out")
    file = OnnxModel(tmp_path / "out" / "model.onnx")
    assert file.is_cached
    model = glassformer.GPT2LMHeadModel.from_pretrained(writer)
    ids = glassformer.AutoTokenizer.from_pretrained(writer)(TEXTS[0][:20], return_tensors="pt")["input_ids"]
    expected = model.generate(ids, max_new_tokens=8, min_new_tokens=8)[0].tolist()
    past = {name: file.empty_past(name, 1) for name in file.input_shapes if name.startswith("past")}
    written, step = ids[0].tolist(), ids
    for _ in range(8):
        mask, last = torch.ones(1, len(written), dtype=torch.long), len(written)
        places = torch.arange(last - step.shape[1], last)[None]
        out = file({"input_ids": step, "attention_mask": mask, "position_ids": places, **past})
        past = {name: out[name.replace("past_key_values", "present")] for name in past}
        scores = out["logits"][:, -1:].clone()
        scores[..., model.config.eos_token_id] = float("-inf")
        step = scores.argmax(-1)
        written.append(int(step))
    assert written == expected


def test_what_cannot_be_exported_is_refused(classifier, writer, exported, tmp_path, capsys):
    for arguments, message in (
        ((classifier, "--to", "onnx", "-o", tmp_path / "x", "--task", "translation"), "is a bert"),
        ((writer, "--to", "gguf", "-o", tmp_path / "x"), "NAME.gguf"),
        ((writer, "--to", "gguf", "-o", tmp_path / "x.gguf", "--task", "fill-mask"), "are for ONNX"),
        ((classifier, "--to", "onnx", "-o", tmp_path / "x", "--tolerance", "0"), "must be above 0"),
    ):
        assert message in run(capsys, "export", *arguments, code=1)[1]
    assert "NAME.onnx or NAME.gguf" in run(capsys, "verify", classifier, "--exported", classifier, code=1)[1]
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes((exported / "model.onnx").read_bytes()[:500])
    assert "onnxruntime cannot read it" in run(capsys, "verify", classifier, "--exported", damaged, code=1)[1]
    assert not (tmp_path / "x").exists() or not list((tmp_path / "x").glob("*"))


@pytest.mark.parametrize("weights", ["f32", "q8_0"])
def test_a_gguf_file_holds_the_weights_and_the_vocabulary(writer, weights, tmp_path, capsys):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    run(capsys, "export", writer, "--to", "gguf", "-o", tmp_path / "model.gguf", "--weights", weights)
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    model = glassformer.GPT2LMHeadModel.from_pretrained(writer)
    tokenizer = glassformer.AutoTokenizer.from_pretrained(writer)
    tensors = {each.name: gguf.quants.dequantize(each.data, each.tensor_type) for each in reader.tensors}
    assert len(tensors) == 4 + 12 * len(model.layers)
    first = model.layers[0]
    values = {
        "token_embd.weight": model.get_input_embeddings().weight,
        "blk.0.attn_qkv.weight": torch.cat(
            [getattr(first.attention.self, part).weight for part in ("query", "key", "value")]
        ),
        "blk.0.ffn_down.weight": first.output.dense.weight,
        "blk.1.attn_norm.bias": model.layers[1].attention.LayerNorm.bias,
    }
    for name, value in values.items():
        error = np.abs(tensors[name] - value.detach().numpy()).max()
        assert error == 0 if weights == "f32" or "norm" in name else 0 < error < 0.02 * value.abs().max()
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    assert tokens == tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    assert reader.get_field("tokenizer.ggml.merges").contents()[0] == " ".join(tokenizer.merges.pairs[0])


def test_llama_computes_what_the_file_was_made_from(writer, tmp_path, capsys):
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed; it is built from source")
    run(capsys, "export", writer, "--to", "gguf", "-o", tmp_path / "model.gguf", "--weights", "f32")
    found = json.loads(run(capsys, "verify", writer, *TEXTS, "--exported", tmp_path / "model.gguf", "--json")[0])
    assert found["same_ids"] and found["differences"]["logits"] < 0.01


def test_the_missing_package_is_named(classifier, tmp_path, capsys, monkeypatch):
    find = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "onnxscript" else find(name, *rest)
    )
    _, error = run(capsys, "export", classifier, "--to", "onnx", "-o", tmp_path / "out", code=1)
    assert "needs onnxscript: pip install 'glassformer[export]'" in error
