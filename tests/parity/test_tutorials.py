"""The tutorials' own code, with only the import line changed, and the results they print."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from glassformer import AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM, BertModel, BertTokenizer


@pytest.fixture(scope="module")
def tokenizer(shared):
    return BertTokenizer.from_pretrained(str(shared / "vocab/bert-base-uncased") + "/")


@pytest.fixture(scope="module")
def folder(shared, tmp_path_factory):
    """A checkpoint folder with the original vocabulary and a small model of random weights."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("bert-small-uncased")
    config = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    BertForMaskedLM(config).save_pretrained(folder)
    BertTokenizer.from_pretrained(shared / "vocab/bert-base-uncased").save_pretrained(folder)
    return folder


def test_first_call(tokenizer):
    assert str(tokenizer("I like natural language progressing!")) == (
        "{'input_ids': [101, 1045, 2066, 3019, 2653, 27673, 999, 102], "
        "'token_type_ids': [0, 0, 0, 0, 0, 0, 0, 0], 'attention_mask': [1, 1, 1, 1, 1, 1, 1, 1]}"
    )


def test_tokenizer_walk_through(tokenizer):
    sentences = ["today is not that bad", "today is so bad", "so good"]
    batch = tokenizer(sentences, truncation=True, padding=True, return_tensors="pt")
    assert batch["input_ids"].tolist()[2] == [101, 2061, 2204, 102, 0, 0, 0]
    tokens = tokenizer.tokenize(sentences[0])
    assert tokens == ["today", "is", "not", "that", "bad"]
    assert tokenizer.convert_tokens_to_ids(tokens) == [2651, 2003, 2025, 2008, 2919]
    assert tokenizer.encode(sentences[0]) == [101, 2651, 2003, 2025, 2008, 2919, 102]
    assert tokenizer.decode([101, 2651, 2003, 2025, 2008, 2919, 102]) == "[CLS] today is not that bad [SEP]"
    fixed = tokenizer(sentences, max_length=32, truncation=True, padding="max_length", return_tensors="pt")
    assert fixed["attention_mask"].shape == (3, 32)
    with pytest.raises(ValueError, match="padding=True"):
        tokenizer(sentences, return_tensors="pt")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "albums sold 124443286539 copies",
            ["albums", "sold", "124", "##44", "##32", "##86", "##53", "##9", "copies"],
        ),
        ("melodically", ["melodic", "##ally"]),
        ("unheard", ["un", "##heard"]),
        ("best-selling", ["best", "-", "selling"]),
        ("bestselling", ["best", "##sell", "##ing"]),
        ("s1 d1 o1 and o2", ["s", "##1", "d", "##1", "o", "##1", "and", "o", "##2"]),
        ("asbofwheohwbeif", ["as", "##bo", "##f", "##w", "##he", "##oh", "##w", "##bei", "##f"]),
    ],
)
def test_six_kinds_of_words(tokenizer, text, tokens):
    assert tokenizer.tokenize(text) == tokens
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == ["[CLS]", *tokens, "[SEP]"]


def test_numbers_ids(tokenizer):
    ids = [101, 4042, 2853, 13412, 22932, 16703, 20842, 22275, 2683, 4809, 102]
    assert tokenizer("albums sold 124443286539 copies")["input_ids"] == ids


@torch.no_grad()
def test_outputs_and_attention_from_scratch(folder):
    config = BertConfig.from_pretrained(folder, output_attentions=True, output_hidden_states=True, return_dict=True)
    config.max_position_embeddings = 512
    model = BertModel(config).from_pretrained(folder, output_attentions=True, output_hidden_states=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    token_input = tokenizer(
        "After stealing money from the bank vault, the robber was seen fishing.", return_tensors="pt"
    )
    model.eval()
    outputs = model(**token_input)
    assert len(outputs) == 4
    assert torch.equal(outputs[0], outputs[2][-1])
    assert torch.equal(outputs[1], model.pooler(outputs[0]))
    emb_output = model.embeddings(token_input["input_ids"], token_input["token_type_ids"])
    assert torch.equal(outputs[2][0], emb_output)

    layer, size = model.encoder.layer[0].attention.self, 16
    q = torch.matmul(emb_output[0], layer.query.weight.T[:, :size]) + layer.query.bias[:size]
    k = torch.matmul(emb_output[0], layer.key.weight.T[:, :size]) + layer.key.bias[:size]
    scores = F.softmax(torch.matmul(q, k.T) / math.sqrt(size), dim=-1)
    assert torch.allclose(scores, outputs[-1][0][0, 0, :, :], atol=1e-6)


def test_masked_words(folder):
    mlm = BertForMaskedLM.from_pretrained(folder, output_hidden_states=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "After Abraham Lincoln won the presidential election on an anti-slavery platform, a war broke out."
    inputs = tokenizer(text, return_tensors="pt")
    inputs["labels"] = inputs["input_ids"].detach().clone()
    torch.manual_seed(1)
    mask = torch.rand(inputs["labels"].shape) < 0.15
    mask_arr = mask * (inputs["labels"] != 101) * (inputs["labels"] != 102)
    selection = torch.flatten(mask_arr[0].nonzero()).tolist()
    assert selection
    inputs["input_ids"][0][selection] = 103
    mlm.eval()
    with torch.no_grad():
        output = mlm(**inputs)
        assert str(output.keys()) == "odict_keys(['loss', 'logits', 'hidden_states'])"
        assert torch.equal(mlm.cls(output["hidden_states"][-1]), output["logits"])
        by_hand = F.cross_entropy(output["logits"][0], inputs["labels"][0].view(-1))
    assert torch.allclose(by_hand, output["loss"], atol=1e-6)


def test_freezing_loop(folder):
    bert = AutoModel.from_pretrained(folder)

    def calc_learnable_params(model):
        return sum(param.numel() for _, param in model.named_parameters() if param.requires_grad)

    before = calc_learnable_params(bert)
    with torch.no_grad():
        assert calc_learnable_params(bert) == before
    for _, param in bert.named_parameters():
        if param.requires_grad:
            param.requires_grad = False
    assert calc_learnable_params(bert) == 0
