"""Sentence vectors: those of sentence-transformers for every way of pooling, comparing and searching."""

from __future__ import annotations

import json
import logging

import numpy
import pytest
import torch
from torch import nn

import glassformer
from glassformer import ConfigError, InputError, SentenceEncoder, WeightsError
from glassformer.tasks.sentences import pooling, semantic_search

from ..conftest import TEXTS, close

MODES = list(pooling.POOLINGS)
LONG = "the cat sat on the mat . " * 10


@pytest.fixture
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture
def make(checkpoint, library, tmp_path):
    """Makes a folder with sentence-transformers, and what it gives back."""

    def make(*steps, dimension=48, **settings):
        from sentence_transformers import models

        folder = checkpoint(glassformer.BertModel)
        transformer = models.Transformer(str(folder), max_seq_length=settings.pop("max_seq_length", 32))
        made = library.SentenceTransformer(modules=[transformer, *steps], device="cpu", **settings)
        made.save(str(tmp_path / "saved"))
        return tmp_path / "saved", made

    return make


def pooled(library, mode, **settings):
    from sentence_transformers import models

    return models.Pooling(48, pooling_mode=mode, **settings)


def assert_equal(ours, theirs):
    torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(theirs), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", [*MODES, ("cls", "mean"), ("mean", "max", "lasttoken")], ids=str)
def test_every_way_of_pooling(make, library, mode):
    folder, reference = make(pooled(library, mode))
    encoder = SentenceEncoder.from_pretrained(folder)
    assert_equal(encoder.encode(TEXTS), reference.encode(TEXTS))
    assert encoder.get_sentence_embedding_dimension() == reference.get_sentence_embedding_dimension()


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Identity(), nn.GELU()], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_further_layers(make, library, activation, bias):
    from sentence_transformers import models

    torch.manual_seed(1)
    dense = models.Dense(48, 20, bias=bias, activation_function=activation)
    folder, reference = make(pooled(library, "mean"), dense, models.Normalize())
    encoder = SentenceEncoder.from_pretrained(folder)
    assert_equal(encoder.encode(TEXTS), reference.encode(TEXTS))
    assert encoder.get_sentence_embedding_dimension() == 20


def test_files_as_they_were_written_for_years(checkpoint):
    folder = checkpoint(glassformer.BertModel)
    expected = SentenceEncoder(
        glassformer.BertModel.from_pretrained(folder),
        glassformer.BertTokenizer.from_pretrained(folder),
        [pooling.Pooling(("cls", "max"))],
    ).encode(TEXTS)
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ]
        )
    )
    switches = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 48, **switches}))
    assert_equal(SentenceEncoder.from_pretrained(folder).encode(TEXTS), expected)


def test_the_ways_to_be_given_vectors(make, library):
    folder, reference = make(pooled(library, "mean"))
    encoder = SentenceEncoder.from_pretrained(folder)
    whole = encoder.encode(TEXTS)
    assert isinstance(whole, numpy.ndarray)
    assert whole.dtype == numpy.float32
    tensor = encoder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    assert not tensor.is_inference()
    assert [each.shape for each in encoder.encode(TEXTS, convert_to_numpy=False)] == [(48,)] * len(TEXTS)
    assert encoder.encode(TEXTS[0]).shape == (48,)
    assert encoder.encode([]).shape == (0, 48)
    assert_equal(encoder.encode(tuple(TEXTS)), whole)
    for options in (
        {"normalize_embeddings": True},
        {"truncate_dim": 7},
        {"truncate_dim": 7, "normalize_embeddings": True},
    ):
        assert_equal(encoder.encode(TEXTS, **options), reference.encode(TEXTS, **options))
    for wrong in (3, {"text": "a"}, None):
        with pytest.raises(InputError, match="sentences must be a text or a list of texts"):
            encoder.encode(wrong)
    with pytest.raises(InputError, match="row 1: "):
        encoder.encode(["a", 3])
    with pytest.raises(TypeError, match="did you mean 'normalize_embeddings'"):
        encoder.encode("a", normalise_embeddings=True)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_prompts(make, library, include, mode):
    settings = {"prompts": {"query": "where is : ", "document": "it is : "}, "default_prompt_name": "document"}
    folder, reference = make(pooled(library, mode, include_prompt=include), **settings)
    encoder = SentenceEncoder.from_pretrained(folder)
    for options in ({}, {"prompt_name": "query"}, {"prompt": "what "}, {"prompt": ""}):
        assert_equal(encoder.encode(TEXTS, **options), reference.encode(TEXTS, **options))
    assert_equal(encoder.encode_query(TEXTS), reference.encode_query(TEXTS))
    assert_equal(encoder.encode_document(TEXTS), reference.encode_document(TEXTS))
    with pytest.raises(InputError, match=r"no prompt 'querry', there are .*, did you mean 'query'"):
        encoder.encode("a", prompt_name="querry")


def test_truncation_is_reported(make, library, caplog):
    folder, reference = make(pooled(library, "mean"), max_seq_length=12)
    encoder = SentenceEncoder.from_pretrained(folder)
    assert encoder.max_seq_length == 12
    with caplog.at_level(logging.WARNING, "glassformer"):
        found = encoder.encode(["the cat", LONG, LONG])
    assert_equal(found, reference.encode(["the cat", LONG, LONG]))
    assert caplog.messages == ["2 of 3 texts are longer than 12 tokens and were truncated; the first is number 1"]
    assert [each.truncated for each in encoder.stream(["the cat", LONG])] == [False, True]
    with pytest.raises(InputError, match="a text has 72 tokens and the model takes 12"):
        encoder.encode(LONG, truncation=False)
    encoder.max_seq_length = reference.max_seq_length = 20
    assert_equal(encoder.encode(LONG), reference.encode(LONG))
    encoder.max_seq_length = 1000  # the model itself has 40 positions
    assert encoder.encode(LONG).shape == (48,)


def test_lower_case(make, library):
    folder, _ = make(pooled(library, "mean"))
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    (folder / "sentence_bert_config.json").write_text(json.dumps({**settings, "do_lower_case": True}))
    tokenizer = glassformer.BertTokenizer.from_pretrained(folder, do_lower_case=False)
    encoder = SentenceEncoder.from_pretrained(folder, tokenizer)
    assert_equal(encoder.encode("THE CAT"), encoder.encode("the cat"))
    encoder.do_lower_case = False
    assert not numpy.allclose(encoder.encode("THE CAT"), encoder.encode("the cat"))


def test_what_is_saved_both_read(make, library, tmp_path):
    from sentence_transformers import models

    folder, reference = make(
        pooled(library, ("mean", "max"), include_prompt=False),
        models.Dense(96, 20, activation_function=nn.ReLU()),
        models.Normalize(),
        prompts={"query": "where is : "},
        similarity_fn_name="dot",
    )
    SentenceEncoder.from_pretrained(folder).save_pretrained(tmp_path / "ours")
    ours = SentenceEncoder.from_pretrained(tmp_path / "ours")
    theirs = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    expected = reference.encode(TEXTS, prompt_name="query")
    assert_equal(ours.encode(TEXTS, prompt_name="query"), expected)
    assert_equal(theirs.encode(TEXTS, prompt_name="query"), expected)
    assert (ours.max_seq_length, theirs.max_seq_length) == (32, 32)
    assert ours.similarity_fn_name == theirs.similarity_fn_name == "dot"


def test_a_plain_checkpoint_is_pooled_by_the_mean_and_reported(checkpoint, library, caplog):
    folder = checkpoint(glassformer.BertModel)
    with caplog.at_level(logging.WARNING, "glassformer"):
        encoder = SentenceEncoder.from_pretrained(folder)
    assert "does not say how vectors are pooled; the mean over tokens is taken" in caplog.text
    assert_equal(encoder.encode(TEXTS), library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS))


# --- wrong files ------------------------------------------------------------------------------------------------------


def step(kind="Pooling", path="1_Pooling"):
    return {"idx": 1, "name": "1", "path": path, "type": f"sentence_transformers.models.{kind}"}


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ("{", "must hold a list of steps"),
        ("[3]", "must hold a list of steps"),
        ("[]", "must begin with a Transformer, it begins with nothing"),
        ([step()], "must begin with a Transformer, it begins with Pooling"),
        ([step("Transformer", ""), step("Pooling", "../../etc")], "which is outside the folder"),
        ([step("Transformer", ""), step("LSTM")], "the step LSTM is not supported; supported are Pooling"),
    ],
)
def test_wrong_lists_of_steps(checkpoint, modules, message):
    folder = checkpoint(glassformer.BertModel)
    (folder / "modules.json").write_text(modules if isinstance(modules, str) else json.dumps(modules))
    with pytest.raises((ConfigError, glassformer.DamagedFileError), match=message):
        SentenceEncoder.from_pretrained(folder)


MEAN = {"pooling_mode": None, "pooling_mode_mean_tokens": True}  # as older releases wrote it


@pytest.mark.parametrize(
    ("file", "change", "error", "message"),
    [
        ("1_Pooling", {"pooling_mode": "median"}, ConfigError, "pooling 'median' is not one of cls, max, mean"),
        ("1_Pooling", {"pooling_mode": None, "pooling_mode_star": True}, ConfigError, "pooling_mode_star is no known"),
        ("2_Dense", {"activation_function": "os.system"}, ConfigError, "'os.system' is not one of Tanh"),
        ("2_Dense", {"activation_function": "evil.Tanh"}, ConfigError, "'evil.Tanh' is not one of Tanh"),
        ("2_Dense", {"out_features": 21}, WeightsError, "the layer needs .* the file holds"),
        ("2_Dense", {"in_features": "many"}, ConfigError, "in_features must be an integer from 1 to .*, got 'many'"),
        ("2_Dense", {"in_features": float("inf")}, ConfigError, "in_features must be an integer"),
        ("2_Dense", {"in_features": 10**9, "out_features": 10**9}, ConfigError, "in_features must be an integer"),
        ("2_Dense", {"in_features": None}, ConfigError, "must be whole numbers"),
        ("2_Dense", {"bias": "yes"}, ConfigError, "bias must be true or false, got 'yes'"),
        ("1_Pooling", {**MEAN, "pooling_mode_max_tokens": True}, ConfigError, "have 96 values, and it takes 48"),
        ("1_Pooling", {**MEAN, "pooling_mode_max_tokens": ["a"]}, ConfigError, "max_tokens must be true or false"),
        ("1_Pooling", {"include_prompt": 0.5}, ConfigError, "include_prompt must be true or false"),
        ("2_Dense", {"use_residual": True}, ConfigError, "use_residual is not supported"),
        ("2_Dense", {"module_input_name": "token_embeddings"}, ConfigError, "only 'sentence_embedding'"),
    ],
)
def test_wrong_steps(make, library, file, change, error, message):
    from sentence_transformers import models

    folder, _ = make(pooled(library, "mean"), models.Dense(48, 20))
    path = folder / file / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(error, match=message):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config_sentence_transformers.json", {"prompts": "7"}, "prompts must be an object with named values, got '7'"),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}, r"prompts\.query must be a string, got 3"),
        ("config_sentence_transformers.json", {"default_prompt_name": ["a"]}, "default_prompt_name must be a string"),
        ("config_sentence_transformers.json", {"similarity_fn_name": [1]}, "similarity_fn_name must be a string"),
        ("sentence_bert_config.json", {"max_seq_length": "x"}, "max_seq_length must be an integer"),
        ("sentence_bert_config.json", {"do_lower_case": "no"}, "do_lower_case must be true or false"),
    ],
)
def test_wrong_settings(make, library, file, change, message):
    folder, _ = make(pooled(library, "mean"))
    path = folder / file
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **change}))
    with pytest.raises(ConfigError, match=message):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("name", ["1_Pooling", "2_Dense"])
def test_a_step_without_its_settings_is_not_guessed(make, library, name):
    from sentence_transformers import models

    folder, _ = make(pooled(library, "cls"), models.Dense(48, 20))
    (folder / name / "config.json").unlink()
    with pytest.raises(ConfigError, match=rf"{name}.config\.json does not exist, and the step {name[2:]} cannot be"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("has_layer", [False, True])
def test_the_last_of_several_poolings_counts(make, library, tmp_path, has_layer):
    """Each reads the token vectors, as in the original, whatever stands between them."""
    from sentence_transformers import models

    between = [models.Dense(48, 20)] if has_layer else []
    folder, reference = make(pooled(library, "mean"), *between, pooled(library, ("cls", "max")), models.Normalize())
    encoder = SentenceEncoder.from_pretrained(folder)
    assert_equal(encoder.encode(TEXTS), reference.encode(TEXTS))
    assert encoder.get_sentence_embedding_dimension() == 2 * 48
    encoder.save_pretrained(tmp_path / "again")
    assert_equal(SentenceEncoder.from_pretrained(tmp_path / "again").encode(TEXTS), reference.encode(TEXTS))


def test_steps_that_are_not_numbers(make, library):
    from safetensors.torch import load_file, save_file
    from sentence_transformers import models

    folder, _ = make(pooled(library, "mean"), models.Dense(48, 20))
    path = folder / "2_Dense/model.safetensors"
    weights = load_file(path)
    weights["linear.bias"][3] = float("nan")
    save_file(weights, path)
    with pytest.raises(WeightsError, match="hold NaN or infinite values"):
        SentenceEncoder.from_pretrained(folder)


def test_pooling_comes_first(checkpoint):
    folder = checkpoint(glassformer.BertModel)
    model, tokenizer = glassformer.BertModel.from_pretrained(folder), glassformer.AutoTokenizer.from_pretrained(folder)
    with pytest.raises(InputError, match="the first step must be a Pooling, got Normalize"):
        SentenceEncoder(model, tokenizer, [pooling.Normalize()])


# --- comparing and searching ------------------------------------------------------------------------------------------


def test_mean_pooling_leaves_padding_out():
    states = torch.tensor([[[1.0], [3.0], [100.0]], [[2.0], [4.0], [6.0]]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert pooling.mean_pooling(states, mask).tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarities(make, library, name):
    folder, reference = make(pooled(library, "mean"), similarity_fn_name=name)
    encoder = SentenceEncoder.from_pretrained(folder)
    vectors = encoder.encode(TEXTS)
    for a, b in (
        (vectors, vectors[:2]),
        (torch.tensor(vectors), vectors),
        (vectors[0], vectors),
        (list(vectors), vectors),
    ):
        assert_equal(encoder.similarity(a, b), reference.similarity(a, b))
    assert_equal(
        encoder.similarity_pairwise(vectors, vectors[::-1].copy()),
        reference.similarity_pairwise(vectors, vectors[::-1].copy()),
    )


def test_what_cannot_be_compared(make, library):
    encoder = SentenceEncoder.from_pretrained(make(pooled(library, "mean"))[0])
    with pytest.raises(InputError, match="vectors of 2 and 3 numbers cannot be compared"):
        encoder.similarity([[1.0, 2.0]], [[1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match="must be equally many and long"):
        encoder.similarity_pairwise([[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(InputError, match="must have the shape N C"):
        encoder.similarity(torch.zeros(1, 1, 1), torch.zeros(1, 1))
    with pytest.raises(InputError, match=r"similarity must be one of cosine, .*, did you mean 'cosine'"):
        SentenceEncoder(encoder.model, encoder.tokenizer, similarity_fn_name="cosinus")


@pytest.mark.parametrize("chunk", [1, 3, 4096])
def test_search(make, library, chunk, monkeypatch, tmp_path):
    from sentence_transformers.util import semantic_search as reference_search

    monkeypatch.setattr(semantic_search, "CHUNK", chunk)
    encoder = SentenceEncoder.from_pretrained(make(pooled(library, "mean"))[0])
    corpus = [f"{a} {b}" for a in ("the cat", "the dog", "so good") for b in ("sat", "is bad", "today", "in london")]
    queries = ["the cat is good", "where is london ?"]
    expected = reference_search(encoder.encode(queries), encoder.encode(corpus), top_k=5)
    found = encoder.search(queries, corpus, top_k=5)
    for mine, theirs in zip(found, expected, strict=True):
        assert [hit["corpus_id"] for hit in mine] == [hit["corpus_id"] for hit in theirs]
        assert [hit["score"] for hit in mine] == pytest.approx([hit["score"] for hit in theirs], abs=1e-5)
        assert [hit["text"] for hit in mine] == [corpus[hit["corpus_id"]] for hit in theirs]
    (tmp_path / "corpus.txt").write_text("\n".join(corpus) + "\n")
    close(encoder.search(queries[0], corpus, top_k=5), found[0])
    close(encoder.search(queries, iter(corpus), top_k=5), found)
    close(encoder.search(queries, [{"text": text} for text in corpus], top_k=5), found)
    close(encoder.search(queries, tmp_path / "corpus.txt", top_k=5), found)
    without_text = [[{name: hit[name] for name in ("corpus_id", "score")} for hit in hits] for hits in found]
    close(encoder.search(encoder.encode(queries), encoder.encode(corpus), top_k=5), without_text)
    assert len(encoder.search(queries[0], corpus, top_k=100)) == len(corpus)
    assert encoder.search(queries, [], top_k=3) == [[], []]


def test_of_equally_good_texts_the_first_is_found(make, library, monkeypatch):
    monkeypatch.setattr(semantic_search, "CHUNK", 2)
    encoder = SentenceEncoder.from_pretrained(make(pooled(library, "mean"))[0])
    encoder.similarity_fn_name = "dot"
    vectors = torch.ones(7, 48)
    assert [hit["corpus_id"] for hit in encoder.search(torch.ones(1, 48), vectors, top_k=2)[0]] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corpus": "corpus.txt"}, "or a file as a pathlib.Path, got str 'corpus.txt'"),
        ({"corpus": 3}, "corpus must be texts, rows or vectors"),
        ({"corpus": ["a"], "top_k": 0}, "top_k must be a whole number"),
    ],
)
def test_what_cannot_be_searched(make, library, arguments, message):
    encoder = SentenceEncoder.from_pretrained(make(pooled(library, "mean"))[0])
    with pytest.raises(InputError, match=message):
        encoder.search("a", **arguments)


def test_prompts_of_a_search(make, library):
    folder, reference = make(pooled(library, "mean"), prompts={"query": "where is : ", "document": "it is : "})
    encoder = SentenceEncoder.from_pretrained(folder)
    hit = encoder.search("london", ["the cat"])[0]
    expected = reference.similarity(reference.encode("where is : london"), reference.encode("it is : the cat"))
    assert float(expected) == pytest.approx(
        float(reference.similarity(reference.encode_query("london"), reference.encode_document("the cat"))), abs=1e-6
    )
    assert hit["score"] == pytest.approx(float(expected), abs=1e-5)
