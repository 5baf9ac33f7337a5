"""Streaming: the pieces together equal `decode`, each comes without delay, and none is an incomplete character."""

from __future__ import annotations

from queue import Empty
from threading import Thread

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import (
    ArgumentError,
    BertTokenizer,
    GPT2Tokenizer,
    InputError,
    OpenAIGPTTokenizer,
    TextIteratorStreamer,
    TextStreamer,
    stream_text,
)
from glassformer.generate.streaming import StreamReplace, StreamStrip, TextStream

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] ' ##' n't n ##n t ##t . , ! m ##m 's ##s ve 北 京 ， あ 3 ## run ##ning é [JOY]"
LETTERS = "a b c n t ' < / w > . </w> a</w> n</w> 't</w> .</w> '</w> s</w> m</w> /w w> ></w> ? ?</w> <unk>"
BYTES = "Ġ . , ' n t 's n't Ġ' Ġn a Ã ¤ ¸ Ń ä ½ ł ð Ł Ļ Ĥ Ģ ĠâĢ Ļ Ċ <|endoftext|> ĠĠ æ ĸ ĩ"


def hard_tokenizer(name: str):
    """A tokenizer with a vocabulary of tokens that are hard to join."""
    if name == "bert":
        made = BertTokenizer(vocab={token: i for i, token in enumerate(WORDS.split())})
    elif name == "openai":
        made = OpenAIGPTTokenizer(vocab={token: i for i, token in enumerate(LETTERS.split())}, merges=[])
    else:
        made = GPT2Tokenizer(vocab={token: i for i, token in enumerate(dict.fromkeys(BYTES.split()))}, merges=[])
    made.add_tokens(["<joy>", "n'"])
    made.add_special_tokens({"additional_special_tokens": ["<|label|>"]})
    return made


HARD = {name: hard_tokenizer(name) for name in ("bert", "openai", "gpt2")}
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "skip_special_tokens": st.booleans(),
        "clean_up_tokenization_spaces": st.sampled_from([True, False, None]),
        "spaces_between_special_tokens": st.booleans(),
    },
)


def streamed(tokenizer, ids: list[int], **options) -> list[str]:
    """The piece after each token, and at the end."""
    stream = TextStream(tokenizer, **options)
    return [*(stream.put([index]) for index in ids), stream.end()]


def cut_in_two(ids: list[int]) -> tuple[list[int], list[int]]:
    return ids[: len(ids) // 2], ids[len(ids) // 2 :]


def check(tokenizer, ids: list[int], options: dict) -> None:
    text = tokenizer.decode(ids, **options)
    assert "".join(streamed(tokenizer, ids, **options)) == text
    prompt, new = cut_in_two(ids)
    stream = TextStream(tokenizer, **options)
    stream.begin(prompt)
    assert stream.put(new) + stream.end() == text[len(tokenizer.decode(prompt, **options)) :]


@pytest.mark.parametrize("name", HARD)
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_pieces_equal_decode_for_hard_vocabularies(name, data):
    tokenizer = HARD[name]
    ids = data.draw(st.lists(st.sampled_from(sorted(tokenizer.ids_to_tokens)), max_size=14))
    check(tokenizer, ids, data.draw(OPTIONS))


@pytest.fixture(scope="module")
def real(shared):
    """Published tokenizers, and strategies for their ids: any, and more often short ones."""
    folders = {"gpt2": GPT2Tokenizer, "openai-gpt": OpenAIGPTTokenizer}
    made = {name: kind.from_pretrained(shared / "vocab" / name) for name, kind in folders.items()}
    for name in ("bert-base-chinese", "bert-base-uncased"):
        made[name] = BertTokenizer.from_pretrained(shared / "vocab" / name)
    short = {name: [i for i, token in one.ids_to_tokens.items() if len(token) < 3] for name, one in made.items()}
    return {name: (one, st.integers(0, len(one) - 1) | st.sampled_from(short[name])) for name, one in made.items()}


@pytest.mark.parametrize("name", ["gpt2", "openai-gpt", "bert-base-chinese", "bert-base-uncased"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_pieces_equal_decode_for_real_vocabularies(name, real, data):
    tokenizer, any_id = real[name]
    check(tokenizer, data.draw(st.lists(any_id, max_size=20)), data.draw(OPTIONS))


@pytest.mark.parametrize("errors", ["replace", "ignore", "backslashreplace", "surrogateescape"])
@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=12))
def test_invalid_bytes(tiny_tokenizer, errors, raw):
    from glassformer.text.bpe.bpe import SYMBOLS

    vocab = tiny_tokenizer.vocab
    tokenizer = GPT2Tokenizer(vocab=vocab, merges=[], errors=errors)
    check(tokenizer, [vocab[SYMBOLS[byte]] for byte in raw], {})


def test_a_strict_tokenizer_refuses_invalid_bytes(tiny_tokenizer):
    tokenizer = GPT2Tokenizer(vocab=tiny_tokenizer.vocab, merges=[], errors="strict")
    with pytest.raises(InputError, match="the tokens are no valid text: invalid start byte"):
        streamed(tokenizer, [tokenizer.vocab["ĸ"]])


def test_no_piece_is_an_incomplete_character(tiny_tokenizer):
    ids = [tiny_tokenizer.vocab[symbol] for symbol in "ðŁĻĤåĮĹ!"]
    assert streamed(tiny_tokenizer, ids) == ["", "", "", "🙂", "", "", "北", "!", ""]


def test_text_comes_without_delay(tiny_tokenizer):
    """Only what the next token could change is held back: a space that punctuation would remove."""
    texts = ["Once", " upon", " don", "'t", " ", "n", "o", " n", "'", "t", " .", "\n", " ", " ,"]
    vocab = {text: [tiny_tokenizer.vocab[c] for c in tiny_tokenizer.tokenize(text)] for text in texts}
    stream = TextStream(tiny_tokenizer)
    shown = [stream.put(vocab[text]) for text in texts] + [stream.end()]
    assert shown == ["Once", " upon", " don", "'t", "", "", " no", "", "", "n't", ".", "\n", "", " ,", ""]


def test_words_come_without_delay():
    tokenizer = HARD["bert"]
    tokens = ["run", "##ning", "n", "北", "京", "，", "3", "run", ".", "'", "t"]
    shown = streamed(tokenizer, tokenizer.convert_tokens_to_ids(tokens))
    assert shown == ["run", "ning", "", " n 北", "京", "，", "3", " run", ".", "", "'t", ""]
    shown = streamed(tokenizer, tokenizer.convert_tokens_to_ids(["北", "##", "京", "[SEP]", "京"]))
    assert shown == ["北", "", "京", " [SEP]", " 京", ""]
    letters = HARD["openai"]
    shown = streamed(letters, letters.convert_tokens_to_ids(["a", "b", "a</w>", "c", ".</w>", "a</w>"]))
    assert shown == ["a", "b", "a", " c", ".", " a", ""]


def test_streaming_replace_and_strip():
    stage = StreamReplace("aab", "x")
    assert [stage.put(text) for text in ("aa", "aab", "a", "c", "aa")] == ["", "aax", "", "ac", ""]
    assert stage.end() == "aa"
    strip = StreamStrip()
    assert [strip.put(text) for text in (" ", "\n a ", " ", "b\t")] == ["", "a", "", "  b"]
    assert strip.end() == ""


def test_a_custom_tokenizer_gives_its_text_at_the_end():
    class Backwards(BertTokenizer):
        def convert_tokens_to_string(self, tokens):
            return " ".join(reversed(tokens))

    tokenizer = Backwards(vocab={token: i for i, token in enumerate(WORDS.split())})
    ids = tokenizer.convert_tokens_to_ids(["run", "n", "t"])
    assert streamed(tokenizer, ids) == ["", "", "", "t n run"]


# --- with a model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "generator": 3, "temperature": 1.5},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"stop_strings": ["e"], "do_sample": True, "generator": 1},
    ],
)
def test_streamed_equals_generated(tiny_model, tiny_tokenizer, options):
    prompt = "Once upon a time"
    ids = torch.tensor([tiny_tokenizer.encode(prompt)])
    sequences = tiny_model.generate(ids, max_new_tokens=30, tokenizer=tiny_tokenizer, **options)
    new = sequences[0, ids.shape[1] :]
    pieces = list(stream_text(tiny_model, tiny_tokenizer, prompt, max_new_tokens=30, **options))
    assert "".join(pieces) == tiny_tokenizer.decode(new, skip_special_tokens=True)
    assert len(pieces) > 3
    assert all(pieces)


def test_an_empty_prompt_begins_with_bos(tiny_model, tiny_tokenizer):
    bos = torch.tensor([[tiny_tokenizer.bos_token_id]])
    new = tiny_model.generate(bos, max_new_tokens=8, attention_mask=torch.ones_like(bos))[0, 1:]
    text = "".join(stream_text(tiny_model, tiny_tokenizer, "", max_new_tokens=8))
    assert text == tiny_tokenizer.decode(new, skip_special_tokens=True)


def test_beams_and_several_sequences_cannot_be_streamed(tiny_model, tiny_tokenizer):
    for wrong, message in (
        ({"num_beams": 3}, "a beam search has no text before its end: pass num_beams=1, got 3"),
        ({"num_return_sequences": 2, "do_sample": True}, "got num_return_sequences 2"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            stream_text(tiny_model, tiny_tokenizer, "Once", **wrong)
    with pytest.raises(ArgumentError, match="did you mean 'top_k'"):
        stream_text(tiny_model, tiny_tokenizer, "Once", topk=3)
    with pytest.raises(InputError, match="prompt must be a string, got 7"):
        stream_text(tiny_model, tiny_tokenizer, 7)


@pytest.mark.parametrize("skip_prompt", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_a_streamer_prints(tiny_model, tiny_tokenizer, capsys, skip_prompt, kept):
    ids = torch.tensor([tiny_tokenizer.encode("It didn't hide")])
    streamer = TextStreamer(tiny_tokenizer, skip_prompt=skip_prompt, skip_special_tokens=not kept)
    for _ in range(2):  # a streamer can be used again
        sequence = tiny_model.generate(ids, max_new_tokens=12, streamer=streamer)[0]
        shown = sequence[ids.shape[1] :] if skip_prompt else sequence
        assert capsys.readouterr().out == tiny_tokenizer.decode(shown, skip_special_tokens=not kept) + "\n"


def test_a_streamer_is_read_while_a_thread_generates(tiny_model, tiny_tokenizer):
    ids = torch.tensor([tiny_tokenizer.encode("It didn't hide")])
    streamer = TextIteratorStreamer(tiny_tokenizer, skip_prompt=True, timeout=30, skip_special_tokens=True)
    thread = Thread(target=tiny_model.generate, args=(ids,), kwargs={"streamer": streamer, "max_new_tokens": 12})
    thread.start()
    pieces = list(streamer)
    thread.join()
    new = tiny_model.generate(ids, max_new_tokens=12)[0, ids.shape[1] :]
    assert "".join(pieces) == tiny_tokenizer.decode(new, skip_special_tokens=True)
    assert len(pieces) > 3


def test_timeout_of_a_streamer(tiny_tokenizer):
    with pytest.raises(Empty):
        next(TextIteratorStreamer(tiny_tokenizer, timeout=0.01))


def test_a_streamer_refuses_several_sequences_and_unknown_options(tiny_tokenizer):
    with pytest.raises(InputError, match="one sequence at a time, got 2"):
        TextStreamer(tiny_tokenizer).put(torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ArgumentError, match="did you mean 'skip_special_tokens'"):
        TextStreamer(tiny_tokenizer, skip_special_token=True)
