"""pipeline(): how models, tokenizers, devices and tasks are found, and what is refused."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import ArgumentError, InputError, pipeline
from glassformer.tasks import task_registry

from ..conftest import ROOT
from .conftest import TEXTS, close

KIND = glassformer.BertForSequenceClassification


def test_a_folder_or_its_parts(checkpoint):
    folder = checkpoint(KIND)
    expected = pipeline("sentiment-analysis", model=str(folder))(TEXTS)
    model, tokenizer = KIND.from_pretrained(folder), glassformer.AutoTokenizer.from_pretrained(folder)
    for pipe in (
        pipeline("text-classification", folder),
        pipeline(model=folder),
        pipeline("text-classification", model, tokenizer),
        pipeline(task="text-classification", model=model, tokenizer=str(folder)),
        pipeline(model=model),  # the tokenizer stands beside the weights it came from
        pipeline("text-classification", model=folder, tokenizer=tokenizer, dtype="auto"),
    ):
        assert pipe.task == "text-classification"
        assert pipe(TEXTS) == expected
    assert repr(pipe) == f"Pipeline(text-classification, BertForSequenceClassification {str(folder)!r})"


@pytest.mark.parametrize("device", [None, -1, "cpu", torch.device("cpu")])
def test_devices(checkpoint, device):
    pipe = pipeline("sentiment-analysis", model=checkpoint(KIND), device=device)
    assert pipe.device == torch.device("cpu")
    assert pipe("so good")[0]["label"]


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "device 'gpu' cannot be used"), (1.5, "got 1.5"), (True, "got True"), (4096, "device 'cuda:4096' cannot")],
)
def test_devices_that_are_not_there(checkpoint, device, message):
    with pytest.raises(InputError, match=message):
        pipeline("sentiment-analysis", model=checkpoint(KIND), device=device)


def test_dtype(checkpoint):
    pipe = pipeline(model=checkpoint(KIND), torch_dtype=torch.bfloat16)
    assert pipe.model.dtype == torch.bfloat16
    assert isinstance(pipe("so good")[0]["score"], float)


def test_columns_by_name(checkpoint):
    pipe = pipeline(model=checkpoint(KIND))
    pair = {"text": TEXTS[0], "text_pair": TEXTS[1]}
    assert pipe(**pair) == pipe(pair)
    close(pipe(text=TEXTS[:2], text_pair=TEXTS[2]), [pipe((text, TEXTS[2])) for text in TEXTS[:2]])
    assert pipe(inputs=TEXTS[0]) == pipe(TEXTS[0])
    with pytest.raises(InputError, match="equally long, got 2 of text, 1 of text_pair"):
        pipe(text=TEXTS[:2], text_pair=TEXTS[:1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda pipe: pipe("a", topk=2), ArgumentError, "no argument 'topk', did you mean 'top_k'"),
        (lambda pipe: pipe("a", top_k=0), InputError, "top_k must be a whole number of at least 1, got 0"),
        (lambda pipe: pipe("a", function_to_apply="soft"), InputError, "must be one of None, 'default', 'softmax'"),
        (lambda pipe: pipe("a", truncation=1), InputError, "truncation must be one of"),
        (lambda pipe: pipe("a", batch_size=0), InputError, "batch_size must be a whole number of at least 1"),
        (lambda pipe: pipe("a", text_pairs="b"), ArgumentError, "did you mean 'text_pair'"),
        (lambda pipe: pipe({"text": "a", "textpair": "b"}), ArgumentError, "a row of text-classification has no"),
        (lambda pipe: pipe({"text_pair": "a"}), InputError, "text-classification needs text; the row has text_pair"),
        (lambda pipe: pipe({"text": None}), InputError, "text-classification needs text, and it is None"),
        (lambda pipe: pipe({"text": 3}), InputError, "text must be a text, got int 3"),
        (lambda pipe: pipe("a", "b"), InputError, "got 2 values"),
        (lambda pipe: pipe(), InputError, "got 0 values"),
        (lambda pipe: pipe("a", text="b"), InputError, "got 1 values and text"),
        (lambda pipe: pipe(("a", "b", "c")), InputError, "reads text, text_pair, got 3 values"),
        (lambda pipe: pipe(3), InputError, "a list of rows or an iterable of them, got 3"),
        (lambda pipe: pipe(["a", None]), InputError, "row 1: text-classification reads rows with text, got None"),
    ],
)
def test_what_a_call_refuses(checkpoint, call, error, message):
    with pytest.raises(error, match=message):
        call(pipeline(model=checkpoint(KIND)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"task": "sentiment"}, InputError, "there is no task 'sentiment', did you mean 'sentiment-analysis'"),
        ({"task": 3}, InputError, "a task is named by a text"),
        ({"topk": 3}, ArgumentError, "no argument 'topk', did you mean 'top_k'"),
        ({"modle": 3}, ArgumentError, "did you mean 'model'"),
        ({"model": None}, InputError, "pipeline needs a model"),
        ({"model": 3}, InputError, "model must be a folder, a hub name or a loaded model, got 3"),
        ({"tokenizer": 3}, InputError, "tokenizer must be a folder, a hub name or a loaded tokenizer, got 3"),
        ({"top_k": 0}, InputError, "top_k must be"),
        ({"batch_size": -1}, InputError, "batch_size must be"),
    ],
)
def test_what_a_pipeline_refuses(checkpoint, arguments, error, message):
    with pytest.raises(error, match=message):
        pipeline(**{"model": checkpoint(KIND), **arguments})


def test_a_loaded_model_is_not_loaded_again(checkpoint):
    model = KIND.from_pretrained(checkpoint(KIND))
    with pytest.raises(InputError, match="the model is loaded already"):
        pipeline(model=model, dtype="auto")


def test_a_model_without_files_needs_its_tokenizer(checkpoint):
    from ..models.architectures import tiny_bert

    with pytest.raises(InputError, match="give its tokenizer"):
        pipeline(model=KIND(tiny_bert()))


def test_a_head_trained_for_another_task_refuses_to_answer(checkpoint):
    folder = checkpoint(glassformer.BertForSequenceClassification)
    with pytest.raises(InputError, match=r"is a BertForSequenceClassification.* was trained for something else"):
        pipeline("ner", model=folder)("so good")
    assert pipeline("text-classification", model=folder)("so good")


def test_a_tokenizer_of_another_model_is_reported(checkpoint, tmp_path, caplog):
    folder = checkpoint(KIND, vocab_size=400)
    pipeline(model=folder)
    assert "and the model 400" in caplog.text
    caplog.clear()
    pipeline(model=checkpoint(KIND, "other"))
    assert "if they do not belong together" not in caplog.text


def test_an_untrained_head_refuses_to_answer(checkpoint, caplog):
    folder = checkpoint(glassformer.BertModel)
    caplog.set_level(logging.ERROR, "glassformer")
    with pytest.raises(InputError, match="has no trained classifier, so text-classification would answer at random"):
        pipeline("sentiment-analysis", model=folder)
    model = KIND.from_pretrained(folder)
    with pytest.raises(InputError, match="train the model on rows with text, text_pair, label"):
        pipeline(model=model)
    model.half().float()  # another dtype is no training
    with pytest.raises(InputError, match="has no trained classifier"):
        pipeline(model=model, tokenizer=str(folder))


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("size", ["5GB", "100KB"])
def test_an_untrained_head_is_remembered_in_files(checkpoint, safe, size):
    folder = checkpoint(glassformer.BertModel)
    KIND.from_pretrained(folder).save_pretrained(folder / "untrained", safe_serialization=safe, max_shard_size=size)
    again = KIND.from_pretrained(folder / "untrained", dtype=torch.bfloat16)
    with pytest.raises(InputError, match="has no trained classifier"):
        pipeline(model=again, tokenizer=str(folder))
    again.classifier.bias.data += 1
    again.save_pretrained(folder / "untrained", safe_serialization=safe, max_shard_size=size)
    assert KIND.from_pretrained(folder / "untrained").untrained == []


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("text-classification", KIND),
        ("fill-mask", glassformer.BertForMaskedLM),
        ("feature-extraction", glassformer.BertModel),
        ("sentence-similarity", glassformer.BertModel),
        ("text-generation", glassformer.BertLMHeadModel),
    ],
)
def test_an_untrained_model_refuses_to_answer(checkpoint, task, kind):
    folder = checkpoint(kind, is_decoder=task == "text-generation")
    tokenizer = glassformer.AutoTokenizer.from_pretrained(folder)
    model = kind(glassformer.BertConfig.from_pretrained(folder))
    with pytest.raises(InputError, match=f"this {kind.__name__} was made from a config and is not trained, so {task}"):
        pipeline(task, model, tokenizer)
    model.load_state_dict(kind.from_pretrained(folder).state_dict())
    assert pipeline(task, model, tokenizer)


def test_a_trained_head_on_an_untrained_body_answers(checkpoint):
    folder = checkpoint(KIND)
    model = KIND(glassformer.BertConfig.from_pretrained(folder))
    assert model.untrained == ["bert", "classifier"]
    model.bert.encoder.layer[0].output.dense.bias.data += 1
    assert model.untrained == ["classifier"]
    model.classifier.weight.data += 1
    assert model.untrained == []
    frozen = KIND(model.config)
    frozen.classifier.weight.data += 1
    assert pipeline(model=frozen, tokenizer=str(folder))("so good")


def test_vectors_of_tokens_need_no_head(checkpoint, caplog):
    folder = checkpoint(glassformer.BertModel)
    model = KIND.from_pretrained(folder)
    assert model.untrained == ["classifier"]
    expected = pipeline("feature-extraction", folder)("so good")
    assert pipeline("feature-extraction", model, str(folder))("so good") == expected


def test_a_head_of_another_size_is_reported_as_such(checkpoint):
    folder = checkpoint(KIND)
    model = KIND.from_pretrained(folder, num_labels=5, ignore_mismatched_sizes=True)
    with pytest.raises(InputError, match=r"the classifier of .*model had another shape and was newly initialised, so"):
        pipeline(model=model)


def test_fill_mask_is_trained_on_plain_text(checkpoint):
    with pytest.raises(InputError, match="train the model with masked-language-modeling on rows with text, or load"):
        pipeline("fill-mask", checkpoint(glassformer.BertModel))


@pytest.mark.parametrize("way", ["a loop", "load_state_dict"])
def test_a_head_that_was_trained_after_loading_answers(checkpoint, tmp_path, way):
    folder = checkpoint(glassformer.BertModel)
    model = KIND.from_pretrained(folder)
    if way == "a loop":
        optimizer = glassformer.AdamW(model.parameters(), lr=1e-3)
        model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([1])).loss.backward()
        optimizer.step()
    else:
        model.load_state_dict(KIND(model.config).state_dict())
    assert model.untrained == []
    assert pipeline(model=model, tokenizer=str(folder))("so good")
    model.save_pretrained(tmp_path)
    assert not KIND.from_pretrained(tmp_path).load_report.initialised


def test_the_checkpoint_implies_the_task(checkpoint, tmp_path):
    folder = checkpoint(KIND)
    config = json.loads((folder / "config.json").read_text())
    for named, message in (
        (["BertForDancing"], "is a BertForDancing, which implies no task"),
        (None, "does not name its class"),
    ):
        (folder / "config.json").write_text(json.dumps({**config, "architectures": named}))
        with pytest.raises(InputError, match=message):
            pipeline(model=folder)


def test_the_table_of_tasks_is_what_the_tasks_say():
    for name in task_registry.TASKS:
        kind = task_registry.task_class(name)
        assert kind.name == name
        assert {alias for alias, task in task_registry.ALIASES.items() if task == name} == set(kind.aliases)
        assert getattr(glassformer, kind.__name__) is kind


def test_names_of_tasks_cost_no_torch():
    script = (
        "import sys; from glassformer.tasks.task_registry import task_names; task_names(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=Path(glassformer.__file__).parents[1], check=True)


def test_special_tokens_in_a_text_are_read_as_text_when_requested(checkpoint):
    pipe = pipeline(model=checkpoint(KIND))
    assert pipe("[SEP]", split_special_tokens=True) != pipe("[SEP]")


def test_text_without_tokens(checkpoint, tmp_path):
    pipe = pipeline(model=checkpoint(KIND))
    assert pipe("")[0]["label"]  # [CLS] [SEP] are tokens
    pipe.tokenizer.template = lambda pair: pipe.tokenizer.__class__.template(pipe.tokenizer, pair)[1:2]
    with pytest.raises(InputError, match="the text str '' has no tokens to read"):
        pipe("")


def test_what_is_saved_is_read_again(checkpoint, tmp_path):
    pipe = pipeline(model=checkpoint(KIND, id2label={0: "no", 1: "yes"}))
    pipe.save_pretrained(tmp_path / "again")
    assert pipeline(model=tmp_path / "again")(TEXTS) == pipe(TEXTS)
    similar = pipeline("sentence-similarity", model=pipe.model.base_model, tokenizer=pipe.tokenizer)
    similar.save_pretrained(tmp_path / "sbert")
    again = pipeline(model=tmp_path / "sbert")
    assert again.task == "sentence-similarity"
    close(again((TEXTS[0], TEXTS[1])), similar((TEXTS[0], TEXTS[1])))


# --- files and hubs ---------------------------------------------------------------------------------------------------


def test_a_file_of_rows(checkpoint, tmp_path):
    pipe = pipeline(model=checkpoint(KIND))
    rows = [{"id": i, "text": text, "text_pair": TEXTS[0]} for i, text in enumerate(TEXTS)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    found = pipe(path)
    assert iter(found) is found
    close(list(found), [pipe((text, TEXTS[0])) for text in TEXTS])


def test_faults_of_a_file_name_its_line(checkpoint, tmp_path):
    pipe = pipeline(model=checkpoint(KIND))
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"text": "the cat"}\n{"txt": "b"}\n')
    found = pipe(tmp_path / "rows.jsonl")
    assert next(found)
    assert next(found)
    message = r"rows.jsonl, line 3: text-classification needs text; the row has txt; .* columns=\{'text': 'txt'\}"
    with pytest.raises(glassformer.DataError, match=message):
        next(found)
    (tmp_path / "long.txt").write_text("a\n" + "the cat " * 30 + "\n")
    with pytest.raises(glassformer.DataError, match=r"long.txt, line 2: a text has 62 tokens"):
        list(pipe(tmp_path / "long.txt"))


def test_the_name_of_a_file_is_a_text_with_a_warning(checkpoint, tmp_path, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipe = pipeline(model=checkpoint(KIND))
    assert len(pipe("rows.txt")) == 1
    assert not caplog.messages
    Path("rows.txt").write_text("so good\nso bad\n")
    assert len(pipe("rows.txt")) == 1
    assert caplog.messages == ["'rows.txt' is read as a text; a file of rows is given as pathlib.Path('rows.txt')"]


def test_special_tokens_of_a_file_are_plain_text(checkpoint, tmp_path):
    pipe = pipeline(model=checkpoint(KIND))
    (tmp_path / "rows.txt").write_text("the [SEP] cat\n")
    (plain,) = pipe(tmp_path / "rows.txt")
    assert list(pipe(glassformer.read_rows(tmp_path / "rows.txt"))) == [plain]
    (special,) = pipe(tmp_path / "rows.txt", split_special_tokens=False)
    close([plain], pipe("the [SEP] cat", split_special_tokens=True))
    close([special], pipe("the [SEP] cat"))
    assert plain != special


def test_ignored_arguments_are_accepted(checkpoint):
    folder = checkpoint(KIND)
    pipe = pipeline("sentiment-analysis", model=folder, use_fast=True, framework="pt", trust_remote_code=False)
    assert pipe("so good", padding=True, truncation=True, max_length=30)
    with pytest.raises(ArgumentError, match="no code is ever loaded from a checkpoint"):
        pipeline("sentiment-analysis", model=folder, trust_remote_code=True)
    with pytest.raises(ArgumentError, match="framework cannot be 'tf'"):
        pipeline("sentiment-analysis", model=folder, framework="tf")


def test_a_hub_name(checkpoint, tmp_path, monkeypatch):
    from glassformer.tasks.sentences.pooling import Dense, Pooling

    from ..checkpoints.hub_server import HubServer

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    folder = checkpoint(KIND)
    body = glassformer.AutoModel.from_pretrained(folder)
    encoder = glassformer.SentenceEncoder(
        body, glassformer.AutoTokenizer.from_pretrained(folder), [Pooling("cls"), Dense(48, 8)]
    )
    encoder.save_pretrained(tmp_path / "sbert")
    repos = {
        f"org/{name}": {
            "main": {
                str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()
            }
        }
        for name, place in (("classifier", folder), ("sbert", tmp_path / "sbert"))
    }
    with HubServer(repos) as hub:
        pipe = pipeline(model="org/classifier", endpoint=hub.url)
        close(pipe(TEXTS), pipeline(model=folder)(TEXTS))
        similar = pipeline(model="org/sbert", endpoint=hub.url)
        assert similar.task == "sentence-similarity"
        assert abs(similar.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-5
        assert similar.encoder.model.config.name_or_path == "org/sbert"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert abs(pipeline(model="org/sbert").encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-5


@pytest.mark.parametrize(
    ("header", "text", "pair"),
    [
        ("sentence\tlabel", "sentence", None),
        ("sentence1\tsentence2\tlabel", "sentence1", "sentence2"),
        ("premise\thypothesis\tlabel", "premise", "hypothesis"),
        ("question\tsentence\tlabel", "question", "sentence"),
    ],
)
def test_usual_names_of_columns_are_read_and_reported(checkpoint, tmp_path, caplog, header, text, pair):
    file = tmp_path / "dev.tsv"
    values = {"question": "so good", "premise": "so good", "sentence1": "so good", "label": "x"}
    values |= {"sentence": "the cat" if pair else "so good", "sentence2": "the cat", "hypothesis": "the cat"}
    file.write_text("\n".join([header, *["\t".join(values[name] for name in header.split("\t"))] * 3]) + "\n")
    pipe = pipeline("text-classification", checkpoint(KIND))
    with caplog.at_level(logging.WARNING, "glassformer"):
        found = list(pipe(file))
    expected = pipe({"text": "so good", **({"text_pair": "the cat"} if pair else {})})
    close(found, [expected] * 3)
    (note,) = caplog.messages  # once, not for every row
    assert f"{text!r} as text" in note
    assert pair is None or f"{pair!r} as text_pair" in note


def test_the_error_of_a_missing_column_suggests_another(checkpoint, tmp_path):
    file = tmp_path / "dev.tsv"
    file.write_text("review\tlabel\nso good\t1\n")
    with pytest.raises(InputError) as caught:
        list(pipeline("text-classification", checkpoint(KIND))(file))
    assert f"say which of them it is: read_rows({str(file)!r}, columns={{'text': '...'}})" in str(caught.value)


def test_a_text_and_its_pair_by_name(checkpoint):
    pipe = pipeline("text-classification", checkpoint(KIND), device_map="cpu")
    assert pipe("so good", text_pair="the cat") == pipe({"text": "so good", "text_pair": "the cat"})
    assert pipe("so good", num_workers=2) == pipe("so good")
    with pytest.raises(InputError, match="got 1 values and text"):
        pipe("so good", text="the cat")


@pytest.mark.parametrize("given", ["a cat", b"a cat"])
def test_a_text_is_never_a_list_of_letters(checkpoint, given):
    pipe = pipeline("next-sentence", checkpoint(glassformer.BertForNextSentencePrediction))
    with pytest.raises(InputError) as caught:
        pipe(given)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "option", "hint"),
    [
        ("text-classification", "return_all_scores", "pass top_k=None"),
        ("token-classification", "grouped_entities", "pass aggregation_strategy='simple'"),
        ("token-classification", "truncation", "read in windows"),
    ],
)
def test_options_of_other_libraries_name_their_replacement(checkpoint, task, option, hint):
    kind = KIND if task == "text-classification" else glassformer.BertForTokenClassification
    pipe = pipeline(task, checkpoint(kind))
    with pytest.raises(ArgumentError, match=f"has no argument {option!r}: .*{hint}"):
        pipe("so good", **{option: True})


def test_invalid_arguments_are_reported(checkpoint):
    with pytest.raises(InputError, match="there is no task 'sst2'"):
        pipeline("sst2")
    with pytest.raises(glassformer.ConfigError, match=r"the type rnn or transformer or .*, and .* is a bert"):
        pipeline("translation", checkpoint(KIND))
    with pytest.raises(TypeError, match=r"is made by AutoModel\.from_pretrained"):
        glassformer.AutoModel("sst2")
    with pytest.raises(glassformer.HubError, match="a folder or a name such as 'org/name' is needed, got None"):
        glassformer.AutoModel.from_pretrained(None)


@pytest.mark.parametrize("name", ["tasks.md", "tasks.zh.md"])
def test_the_table_of_tasks_is_complete(name):
    lines = (ROOT / "docs" / name).read_text("utf-8").splitlines()
    cells = [[re.findall(r"`([\w-]+)`", cell) for cell in line.split("|")[1:-1]] for line in lines if line[:3] == "| `"]
    assert [names[0] for names, *_ in cells] == list(task_registry.TASKS)
    settings = set(glassformer.GenerationConfig.field_names())
    everywhere = {"split_special_tokens", "num_workers", "padding"}
    for (task, *aliases), inputs, targets, options in cells:
        kind = task_registry.task_class(task)
        assert aliases == [alias for alias, meant in task_registry.ALIASES.items() if meant == task]
        assert (tuple(inputs), tuple(targets)) == (kind.columns.inputs, kind.columns.targets)
        writes = settings <= set(kind.option_names())
        known = set(kind.option_names()) - everywhere - {kind.nested_options} - (settings if writes else set())
        assert sorted(options) == sorted(known), task


def test_help_names_tasks_with_options_that_they_have():
    listed = re.findall(r"^    (\S.*?)  +(\w.*)$", pipeline.__doc__, re.MULTILINE)
    documented = {task: options.split(", ") for tasks, options in listed for task in tasks.split(" (")[0].split(", ")}
    assert documented.keys() == task_registry.TASKS.keys() - {"masked-language-modeling", "pre-training"}
    for task, options in documented.items():
        assert set(options) <= {*task_registry.task_class(task).option_names()}, task


def test_options_within_options_must_be_a_dictionary(checkpoint):
    pipe = pipeline("fill-mask", model=checkpoint(glassformer.BertForMaskedLM))
    for wrong in (2, "x", True, [1], {1: 2}):
        with pytest.raises(InputError, match="tokenizer_kwargs must be a dictionary of options, got"):
            pipe("the [MASK]", tokenizer_kwargs=wrong)


def test_a_prefix_must_be_a_text(checkpoint):
    pipe = pipeline("text-generation", model=checkpoint(glassformer.BertLMHeadModel, is_decoder=True))
    with pytest.raises(InputError, match="prefix must be a text, got 2"):
        pipe("the", prefix=2)
