"""text-generation: as the tutorial prints it, as transformers answers, and what is particular to it."""

from __future__ import annotations

import json

import pytest
import torch

import glassformer
from glassformer import AutoModelForCausalLM, AutoTokenizer, InputError, pipeline

from ..tiny import VOCAB


@pytest.fixture
def folder(tmp_path):
    """A Chinese GPT-2 as people share it: a BERT vocabulary, and settings for the task in its config.json."""
    torch.manual_seed(0)
    shape = {"vocab_size": len(VOCAB), "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 60, "n_ctx": 60}
    config = glassformer.GPT2Config(
        **{name: value for name, value in shape.items() if name != "n_ctx"},
        initializer_range=0.4,
        bos_token_id=50256,
        eos_token_id=50256,
    )
    glassformer.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    values = json.loads((tmp_path / "config.json").read_text())
    values |= {
        "tokenizer_class": "BertTokenizer",
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 32}},
        "output_past": True,
        "gradient_checkpointing": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(values))
    return tmp_path


def test_the_tutorial_runs(folder):
    cache_dir = str(folder)
    model = AutoModelForCausalLM.from_pretrained(cache_dir)
    tokenizer = AutoTokenizer.from_pretrained(cache_dir)
    generator = pipeline(task="text-generation", model=model, tokenizer=tokenizer, device=-1)
    output = generator("我爱北京", max_length=20, num_return_sequences=1)
    assert isinstance(tokenizer, glassformer.BertTokenizer)
    (answer,) = output
    assert answer["generated_text"].startswith("我爱北京")
    assert len(answer["generated_text"]) > len("我爱北京")


def test_the_checkpoint_says_how_the_task_is_done(folder):
    pipe = pipeline("text-generation", model=folder)
    torch.manual_seed(0)
    sampled = pipe("我爱北京", return_tensors=True)[0]["generated_token_ids"]
    assert len(sampled) == 32
    torch.manual_seed(1)
    assert pipe("我爱北京", return_tensors=True)[0]["generated_token_ids"] != sampled
    greedy = [pipe("我爱北京", do_sample=False, max_new_tokens=5) for _ in range(2)]
    assert greedy[0] == greedy[1]


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False},
        {"do_sample": False, "num_beams": 3, "length_penalty_counts": "new"},
        {"do_sample": False, "return_full_text": False},
        {"do_sample": False, "num_beams": 3, "num_return_sequences": 2, "length_penalty_counts": "new"},
    ],
)
def test_as_transformers_answers(folder, options):
    transformers = pytest.importorskip("transformers")
    texts = ["我爱北京天安门", "the cat sat on the mat", "so good"]
    ours = pipeline("text-generation", model=folder)(texts, max_new_tokens=12, **options)
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    model.generation_config.eos_token_id = None
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    theirs = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
    options = {name: value for name, value in options.items() if name != "length_penalty_counts"}
    for text, mine in zip(texts, ours, strict=True):
        expected = theirs(
            text, max_new_tokens=12, add_special_tokens=False, clean_up_tokenization_spaces=True, **options
        )
        assert [squeeze(one) for one in mine] == [squeeze(one) for one in expected]


def squeeze(answer: dict) -> str:
    """Without spaces: Chinese characters stand without them here."""
    return answer["generated_text"].replace(" ", "")


def test_rows_draw_on_their_own(folder):
    pipe = pipeline("text-generation", model=folder, max_new_tokens=6, do_sample=True, seed=7)
    together = pipe(["so good", "我爱北京天安门", "the cat"], num_return_sequences=2)
    assert together == pipe(["so good", "我爱北京天安门", "the cat"], num_return_sequences=2, batch_size=1)
    assert together[0] == pipe("so good", num_return_sequences=2)
    assert together[0][0] != together[0][1]
    assert pipe("so good", seed=8) != pipe("so good")


def test_what_stands_before_a_prompt(folder):
    pipe = pipeline("text-generation", model=folder, max_new_tokens=3, do_sample=False)
    whole = pipe("the cat sat")
    assert pipe("sat", prefix="the cat ") == whole
    assert pipe("the cat sat", return_full_text=False)[0]["generated_text"] == whole[0]["generated_text"][11:]


def test_what_is_refused(folder):
    pipe = pipeline("text-generation", model=folder)
    with pytest.raises(TypeError, match="did you mean 'max_new_tokens'"):
        pipe("so good", max_new_token=3)
    with pytest.raises(InputError, match="60"):
        pipe("so good " * 40)
    with pytest.raises(InputError, match="empty"):
        pipe("")
    with pytest.raises(InputError, match="seed"):
        pipe("so good", generator="x")


def test_the_loss_is_that_of_the_model(folder):
    pipe = pipeline("text-generation", model=folder)
    task = pipe.worker
    examples = [example for text in ("so good", "我爱北京天安门") for example in task.encode(task.read(text))]
    batch = task.collate(examples)
    assert batch.targets_count == sum(len(example) - 1 for example in examples)
    labels = batch.inputs["input_ids"].masked_fill(batch.inputs["attention_mask"] == 0, -100)
    with torch.no_grad():
        mean = pipe.model(**{k: v for k, v in batch.inputs.items() if k != "token_type_ids"}, labels=labels).loss
        mine = task.loss(pipe.model, batch, "mean")
    torch.testing.assert_close(mine, mean)


def test_a_model_that_sees_what_it_should_predict_is_refused_when_the_pipeline_is_made(checkpoint):
    with pytest.raises(InputError, match="sees the words it should predict: load it with is_decoder=True"):
        pipeline("text-generation", model=checkpoint(glassformer.BertForMaskedLM))


def test_a_prompt_that_is_too_long_is_reported_once(folder, recwarn):
    pipe = pipeline(
        "text-generation", model=folder, tokenizer=AutoTokenizer.from_pretrained(folder, model_max_length=60)
    )
    with pytest.raises(InputError, match="the prompt has 80 tokens, and the model reads at most 60"):
        pipe("我" * 80)
    assert not recwarn.list
