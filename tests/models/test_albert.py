"""ALBERT: layers that are one module, narrow word vectors, and every tool on them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import glassformer
from glassformer import AlbertConfig, AlbertForMaskedLM, AlbertForPreTraining, AlbertModel, ConfigError, InputError
from glassformer.explain.addressing import layer_names
from glassformer.explain.analysis import head_importance as head_measures
from glassformer.explain.analysis.head_importance import all_heads, head_factors
from glassformer.nn.prepared import prepared

from .architectures import tiny_albert, tokens

IDS = torch.tensor([[2, 7, 9, 3]])


def shared(**fields) -> AlbertConfig:
    """Six layers of two groups: 0 to 2 are one module, 3 to 5 another."""
    return tiny_albert(**{"num_hidden_layers": 6, "num_hidden_groups": 2, **fields})


@pytest.fixture
def model() -> AlbertModel:
    torch.manual_seed(0)
    return AlbertModel(shared()).double().eval()


def unshared(model: AlbertModel) -> AlbertModel:
    """The same computation with weights of its own in every layer."""
    config = tiny_albert(num_hidden_layers=6, num_hidden_groups=6)
    twin = AlbertModel(config).double().eval()
    twin.load_state_dict(model.state_dict())
    assert len(twin.distinct_layers) == 6
    return twin


def test_layers_of_a_group_are_one_module(model):
    first, *_, last = model.layers
    assert [each is first for each in model.layers] == [True] * 3 + [False] * 3
    assert model.distinct_layers == [first, last] and layer_names(model)[4] == "encoder.layer.4"
    assert AlbertModel(shared(num_hidden_groups=1)).num_parameters() < model.num_parameters()
    with pytest.raises(ConfigError, match="num_hidden_groups must be at most num_hidden_layers, got 7 groups for 6"):
        shared(num_hidden_groups=7)
    with pytest.raises(ConfigError, match="is_decoder=True: an ALBERT only encodes"):
        shared(is_decoder=True)


@pytest.mark.parametrize(
    "fields",
    [{}, {"num_hidden_groups": 1}, {"num_hidden_layers": 5, "num_hidden_groups": 3}, {"inner_group_num": 2}],
    ids=str,
)
@torch.no_grad()
def test_groups_and_inner_layers_equal_transformers(fields, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = AlbertForMaskedLM(shared(**fields)).double().eval()
    model.save_pretrained(tmp_path / "ours")
    theirs, info = transformers.AlbertForMaskedLM.from_pretrained(
        tmp_path / "ours", dtype=torch.float64, attn_implementation="eager", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    wanted = {"output_hidden_states": True, "output_attentions": True}
    a, b = model(IDS, **wanted), theirs.eval()(IDS, **wanted)
    torch.testing.assert_close(a.logits, b.logits, rtol=1e-10, atol=1e-10)
    for name in ("hidden_states", "attentions"):
        for x, y in zip(a[name], b[name], strict=True):
            torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)
    theirs.save_pretrained(tmp_path / "theirs")
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "theirs", dtype=torch.float64)
    assert torch.equal(again(IDS).logits, model(IDS).logits)
    assert not again.load_report.unused


def test_files_hold_every_group_once(model, tmp_path):
    model.save_pretrained(tmp_path)
    names = set(load_file(tmp_path / "model.safetensors"))
    layers = {name for name in names if ".ffn.weight" in name}
    assert layers == {f"encoder.albert_layer_groups.{group}.albert_layers.0.ffn.weight" for group in (0, 1)}
    assert {"encoder.embedding_hidden_mapping_in.weight", "pooler.bias"} <= names
    again = AlbertModel.from_pretrained(tmp_path)
    assert again.layer(0) is again.layer(2) and again.layer(3) is not again.layer(2)


@torch.no_grad()
def test_every_layer_is_captured_and_patched_for_itself(model):
    """As in a model that computes the same with weights of its own in every layer."""
    twin, ids = unshared(model), tokens(2, 5)
    mask = torch.ones(6, 4)
    mask[4, 1] = mask[1, 2] = 0
    out = twin(ids, output_hidden_states=True, output_attentions=True)
    with model.capture({1: [0, 3], 4: [2]}, queries=True, hidden=[2, -1], modules="encoder.layer.*.output") as seen:
        model(ids)
    torch.testing.assert_close(seen.attention[1], out.attentions[1][:, [0, 3]])
    torch.testing.assert_close(seen.attention[4], out.attentions[4][:, [2]])
    torch.testing.assert_close(seen.hidden[2], out.hidden_states[2])
    torch.testing.assert_close(seen["encoder.layer.3.output"], out.hidden_states[4])
    assert len(seen.returned) == 6 and seen.queries.keys() == {1, 4}
    changes = {"encoder.layer.2.attention.output.dense": lambda x: x * 2, "encoder.layer.5.output": lambda x: x + 1}
    for patch in (
        {"heads": {4: {1: 0.5}, 0: [3]}},
        {"skip": [1, 5]},
        {"modules": changes},
    ):
        with model.patched(**patch):
            found = model(ids).last_hidden_state
        with twin.patched(**patch):
            wanted = twin(ids).last_hidden_state
        torch.testing.assert_close(found, wanted)
        assert not torch.allclose(found, out.last_hidden_state)
    masked = model(ids, head_mask=mask)
    torch.testing.assert_close(masked.last_hidden_state, twin(ids, head_mask=mask).last_hidden_state)


@torch.no_grad()
def test_heads_are_pruned_in_all_layers_that_share_them(model, tmp_path):
    assert {head.layer for head in all_heads(model)} == {0, 3} and len(all_heads(model)) == 8
    lost = [head for head in all_heads(model) if (head.layer, head.head) in ((0, 1), (3, 0))]
    with model.patched(**head_factors(model, lost)):
        wanted = model(IDS).last_hidden_state
    model.prune_heads({2: [1], 3: [0]})
    torch.testing.assert_close(model(IDS).last_hidden_state, wanted)
    model.save_pretrained(tmp_path)
    again = AlbertModel.from_pretrained(tmp_path, dtype=torch.float64)
    assert again.config.pruned_heads == {0: [1], 1: [0]}  # of the two that have weights, as transformers counts them
    assert torch.equal(again(IDS).last_hidden_state, model(IDS).last_hidden_state)
    with pytest.raises(InputError, match="keep at least one"):
        again.prune_heads({0: [0], 1: [2], 2: [3]})
    with pytest.raises(InputError, match="2 layers have weights of their own, 0 to 1; got 5"):
        AlbertModel(shared(pruned_heads={5: [0]}))


def test_an_adapter_and_int8_are_shared_too(model, tmp_path):
    plain = model(IDS).last_hidden_state
    model.save_pretrained(tmp_path / "base")
    glassformer.add_lora(model, glassformer.LoraConfig(r=2, target_modules=["query", "ffn"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_()
    adapted = model(IDS).last_hidden_state
    assert (
        not torch.allclose(adapted, plain)
        and model.layer(1).attention.self.query is model.layer(2).attention.self.query
    )
    model.save_pretrained(tmp_path / "adapter")
    names = set(load_file(tmp_path / "adapter/adapter_model.safetensors"))
    group = "base_model.model.encoder.albert_layer_groups.1.albert_layers.0"
    assert (
        f"{group}.attention.query.lora_A.weight" in names and f"{group}.ffn.lora_B.weight" in names and len(names) == 8
    )
    again = AlbertModel.from_pretrained(tmp_path / "base", dtype=torch.float64)
    glassformer.load_lora(again, tmp_path / "adapter")
    torch.testing.assert_close(again(IDS).last_hidden_state, adapted)
    glassformer.merge_lora(again)
    torch.testing.assert_close(again(IDS).last_hidden_state, adapted)
    again.save_pretrained(tmp_path / "merged")
    merged = AlbertModel.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(merged(IDS).last_hidden_state, adapted.float(), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        fast = prepared(merged)
        assert fast.encoder.layer[0] is fast.encoder.layer[2]
        small = glassformer.quantize(merged)
        assert small.layer(0).intermediate.dense is small.layer(1).intermediate.dense


def test_gradient_checkpointing_and_freezing(model):
    model.train().gradient_checkpointing_enable()
    model(IDS).last_hidden_state.square().sum().backward()
    frugal = model.layer(0).intermediate.dense.weight.grad.clone()
    model.zero_grad()
    model.gradient_checkpointing_disable()
    model(IDS).last_hidden_state.square().sum().backward()
    torch.testing.assert_close(model.layer(2).intermediate.dense.weight.grad, frugal)


@torch.no_grad()
def test_heads_by_hand():
    torch.manual_seed(0)
    model = AlbertForPreTraining(shared(hidden_act="relu")).double().eval()
    body, head = model.albert(IDS), model.predictions
    narrow = head.LayerNorm(F.relu(head.dense(body.last_hidden_state)))
    assert narrow.shape[-1] == 20
    logits = narrow @ model.get_input_embeddings().weight.T + head.bias
    out = model(IDS, labels=IDS, sentence_order_label=torch.tensor([1]))
    torch.testing.assert_close(out.prediction_logits, logits)
    losses = F.cross_entropy(logits[0], IDS[0]) + F.cross_entropy(out.sop_logits, torch.tensor([1]))
    torch.testing.assert_close(out.loss, losses)
    torch.testing.assert_close(
        model(IDS, sentence_order_label=torch.tensor([1])).loss, losses - model(IDS, IDS * 0 + 1, labels=IDS).loss
    )
    assert model(IDS).loss is None


def test_resizing_the_vocabulary():
    model = AlbertForMaskedLM(shared()).eval()
    before = model(IDS).logits
    model.resize_token_embeddings(64)
    assert model.predictions.decoder.weight is model.get_input_embeddings().weight
    assert torch.allclose(model(IDS).logits[..., :60], before, atol=1e-5)


def test_pretraining_learns_the_order_of_sentences(tmp_path):
    lines = [f"{word} one .\n{word} two .\n{word} three .\n" for word in ("cat", "dog", "sun", "sea")]
    tokenizer = glassformer.train_tokenizer("\n".join(lines).splitlines(), "wordpiece", vocab_size=60)
    torch.manual_seed(0)
    model = AlbertForPreTraining(shared(vocab_size=len(tokenizer), initializer_range=0.02))
    task = glassformer.PreTraining(model, tokenizer, documents="blank")
    assert task.pairs == "order"
    rows = [{"text": line} for line in "\n".join(lines).splitlines()]
    settings = glassformer.TrainSettings(output_dir=str(tmp_path), max_steps=40, learning_rate=3e-3, logging_steps=50)
    trainer = glassformer.Trainer(task, rows * 4, rows, settings)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["loss"] < before["loss"] and after["pair_accuracy"] >= before["pair_accuracy"]
    pipe = glassformer.pipeline("fill-mask", model=str(tmp_path))
    assert type(pipe.model) is AlbertForMaskedLM and len(pipe("cat [MASK] .")) == 5


def test_shared_layers_are_frozen_together_or_not_at_all(tmp_path):
    tokenizer = glassformer.train_tokenizer(["a b c d"], "wordpiece", vocab_size=20)
    rows = [{"text": "a b c d"}]

    def train(count: int) -> glassformer.Trainer:
        task = glassformer.MaskedLanguageModeling(AlbertForMaskedLM(shared(vocab_size=len(tokenizer))), tokenizer)
        settings = glassformer.TrainSettings(output_dir=str(tmp_path), max_steps=1, freeze_layers=count)
        return glassformer.Trainer(task, rows, None, settings)

    for count, above in ((1, 2), (4, 2)):
        with pytest.raises(InputError, match=f"freeze_layers {count} would freeze {above} of the layers above too"):
            train(count)
    lower, upper = train(3).task.model.base_model.distinct_layers
    assert not any(each.requires_grad for each in lower.parameters())
    assert all(each.requires_grad for each in upper.parameters())


def test_the_least_important_heads_of_shared_layers_are_pruned(tmp_path):
    tokenizer = glassformer.train_tokenizer(["a b c d", "e f g h"], "wordpiece", vocab_size=30)
    torch.manual_seed(0)
    model = glassformer.AlbertForSequenceClassification(shared(vocab_size=len(tokenizer)))
    task = glassformer.TextClassification(model, tokenizer)
    rows = [{"text": "a b c d", "label": "LABEL_0"}, {"text": "e f g h", "label": "LABEL_1"}]
    for method in ("gradient", "ablation"):
        found = glassformer.head_importance(task, rows, method)
        assert len(found) == 8
    before = head_measures.summed_loss(task, rows, 4096, None)["loss"]
    worst = head_measures.least_important(found, 1)
    expected = found[worst[0]] * 2 + before  # by ablation: the loss without it, a mean over two texts
    head_measures.prune(model, worst)
    assert head_measures.summed_loss(task, rows, 4096, None)["loss"] == pytest.approx(expected, abs=1e-5)


def test_every_auto_class_loads_it(tmp_path):
    AlbertForPreTraining(shared()).save_pretrained(tmp_path)
    for head in ("PreTraining", "MaskedLM", "SequenceClassification", "MultipleChoice", "TokenClassification"):
        model = getattr(glassformer, f"AutoModelFor{head}").from_pretrained(tmp_path)
        assert type(model).__name__ == f"AlbertFor{head}"
    assert type(glassformer.AutoModel.from_pretrained(tmp_path)) is AlbertModel
    assert type(glassformer.AutoModelForQuestionAnswering.from_pretrained(tmp_path).config) is AlbertConfig


def test_it_learns_from_text_with_its_own_tokenizer(request, tmp_path):
    """Whole words of SentencePiece are masked together, and blanks are filled by words."""
    folder = request.getfixturevalue("shared")
    tokenizer = glassformer.AlbertTokenizer(str(folder / "vocab/albert-base-v2/spiece.model"))
    torch.manual_seed(0)
    model = AlbertForPreTraining(shared(vocab_size=len(tokenizer), initializer_range=0.02))
    task = glassformer.PreTraining(model, tokenizer, mask_whole_words=True, mask_fraction=0.4)
    rows = [{"text": f"an unaffable {word} walked homewards ."} for word in ("cat", "dog", "fox", "hen")]
    (example, *_) = task.training_examples(task.prepare_rows(rows)[0], (0,))
    tokens_seen = tokenizer.convert_ids_to_tokens(example.encoded.ids())
    chosen = [label != -100 for label in example.labels["labels"]]
    for place in range(1, len(tokens_seen)):
        original = example.labels["labels"][place]
        piece = tokenizer.convert_ids_to_tokens([original])[0] if chosen[place] else tokens_seen[place]
        if not piece.startswith(("▁", "[")):
            assert chosen[place] == chosen[place - 1], tokens_seen
    assert any(chosen)
    settings = glassformer.TrainSettings(output_dir=str(tmp_path), max_steps=1)
    glassformer.Trainer(task, rows, None, settings).train()
    pipe = glassformer.pipeline("fill-mask", model=str(tmp_path), whole_words=True)
    assert type(pipe.tokenizer) is glassformer.AlbertTokenizer
    assert all(each["token_str"].strip().isalnum() for each in pipe("a [MASK] cat", top_k=3))
