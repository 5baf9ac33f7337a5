"""When each word is said: the cross-attention of heads that follow the sound, aligned by dynamic time warping.

Each text token is laid on the vectors of the sound (one for every 20 ms) so that both run forward together and the
attention along the way is highest. The rules for punctuation and for words that seem too long are the original's.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...models.whisper_heads import WhisperForConditionalGeneration
from ...text.whisper_tokenizer import WhisperTokenizer

STEPS_PER_SECOND = 50  # of the vectors of the sound
WITHOUT_SPACES = ("zh", "ja", "th", "lo", "my", "yue")  # their words cannot be told by spaces
OPENING = "\"'“¿([{-"
CLOSING = "\"'.。,，!！?？:：”)]}、"
SENTENCE_ENDS = ".。!！?？"
LONGEST_MEDIAN = 0.7  # seconds


@dataclass
class WordTiming:
    """A word with its tokens, in seconds from the beginning of the window."""

    word: str
    tokens: list[int]
    start: float
    end: float
    probability: float


def align_words(
    model: WhisperForConditionalGeneration,
    tokenizer: WhisperTokenizer,
    prompt: Sequence[int],
    text: Sequence[int],
    memory: Tensor,
    columns: int,
    language: str | None,
) -> list[WordTiming]:
    """The words of a text, and when each is said in the window that `memory` (1 T C) was made of.

    `prompt` are the tokens before a text with times; `columns` of the spectrogram hold sound.
    """
    if not text:
        return []
    end = tokenizer.eos_token_id
    ids = [*prompt, tokenizer.timestamp_begin - 1, *text, end]
    weights, logits = attend_to_sound(model, ids, memory)
    chances = logits[len(prompt) : len(prompt) + len(text), :end].softmax(-1)
    probabilities = chances[torch.arange(len(text)), torch.tensor(text)].tolist()
    matrix = alignment_matrix(weights[:, :, : columns // 2], model.config.median_filter_width)
    rows, steps = time_warping(-matrix[len(prompt) : -1].double().numpy())
    words, tokens = split_words(tokenizer, [*text, end], language)
    if len(tokens) <= 1:
        return []
    bounds = [0, *itertools.accumulate(len(each) for each in tokens[:-1])]
    firsts = np.concatenate(([True], np.diff(rows) > 0))
    times = steps[firsts] / STEPS_PER_SECOND  # where each token begins
    return [
        WordTiming(word, ids, float(times[i]), float(times[j]), float(np.mean(probabilities[i:j])))
        for word, ids, i, j in zip(words, tokens, bounds, bounds[1:], strict=False)
    ]


@torch.no_grad()
def attend_to_sound(
    model: WhisperForConditionalGeneration, ids: Sequence[int], memory: Tensor
) -> tuple[Tensor, Tensor]:
    """The weights of the alignment heads (heads T S) while a text is read, and the logits behind each token (T V)."""
    heads = model.generation_config.extra.get("alignment_heads") or all_upper_heads(model)
    first, by_layer = model.encoder.layer_count, {}
    for layer, head in heads:
        by_layer.setdefault(first + layer, []).append(head)
    with model.capture(cross=by_layer) as seen:
        body = model.decoding_body.encode(torch.tensor([list(ids)]), encoder_hidden_states=memory)
    weights = torch.cat([seen.cross[layer][0] for layer in by_layer])
    return weights, model.word_logits(body.rows)


def all_upper_heads(model: WhisperForConditionalGeneration) -> list[tuple[int, int]]:
    """(layer, head) of the upper half of the decoder, where nothing says which heads follow the sound."""
    layers, heads = model.config.decoder_layer_count, model.config.decoder_heads
    return [(layer, head) for layer in range(layers // 2, layers) for head in range(heads)]


def alignment_matrix(weights: Tensor, width: int) -> Tensor:
    """Weights (heads T S), smoothed, in units of each moment's deviation over the text, as the mean of the heads."""
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    return median_filter((weights - mean) / deviation, width).mean(0)


def median_filter(values: Tensor, width: int) -> Tensor:
    """The median of the `width` values around each, over the last dimension, mirrored at both ends."""
    half = width // 2
    if values.shape[-1] <= half:
        return values
    padded = F.pad(values, (half, half), mode="reflect")
    return padded.unfold(-1, width, 1).sort(-1).values[..., half]


def time_warping(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest way from the first to the last cell of a matrix, by steps down, right or both: rows, columns.

    >>> time_warping(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    (array([0, 1, 1]), array([0, 1, 2]))
    """
    height, width = costs.shape
    total = np.full((height + 1, width + 1), np.inf, np.float32)
    total[0, 0] = 0
    came = np.zeros((height + 1, width + 1), np.int8)  # from 0: both, 1: above, 2: the left
    for diagonal in range(2, height + width + 1):  # cells whose numbers add up to it, which do not need each other
        i = np.arange(max(1, diagonal - width), min(height, diagonal - 1) + 1)
        j = diagonal - i
        both, above, left = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        way = np.where((both < above) & (both < left), 0, np.where((above < both) & (above < left), 1, 2))
        total[i, j] = costs[i - 1, j - 1] + np.choose(way, (both, above, left))
        came[i, j] = way
    came[0, :], came[:, 0] = 2, 1
    path, i, j = [], height, width
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        way = came[i, j]
        i, j = i - (way != 2), j - (way != 1)
    rows, columns = np.array(path[::-1]).T
    return rows, columns


def split_words(
    tokenizer: WhisperTokenizer, tokens: Sequence[int], language: str | None
) -> tuple[list[str], list[list[int]]]:
    """Words with their tokens: what a space or a sign begins; in languages without spaces, every whole character."""
    pieces, groups = split_characters(tokenizer, tokens)
    if language in WITHOUT_SPACES:
        return pieces, groups
    words: list[str] = []
    tokens_of_words: list[list[int]] = []
    for piece, group in zip(pieces, groups, strict=True):
        is_sign = piece.strip() in string.punctuation
        if not words or group[0] >= tokenizer.eos_token_id or piece.startswith(" ") or is_sign:
            words.append(piece)
            tokens_of_words.append(list(group))
        else:
            words[-1] += piece
            tokens_of_words[-1] += group
    return words, tokens_of_words


def split_characters(tokenizer: WhisperTokenizer, tokens: Sequence[int]) -> tuple[list[str], list[list[int]]]:
    """The shortest runs of tokens that are whole characters, as text and as tokens."""

    def decode(ids: Sequence[int]) -> str:
        return tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)

    whole, done = decode(tokens), 0
    pieces: list[str] = []
    groups: list[list[int]] = []
    group: list[int] = []
    for token in tokens:
        group.append(token)
        piece = decode(group)
        broken = piece.find("\ufffd")
        # What looks like a part of a character is one, unless the text itself has it there.
        if broken < 0 or whole[done + broken : done + broken + 1] == "\ufffd":
            pieces.append(piece)
            groups.append(group)
            group = []
            done += len(piece)
    return pieces, groups


def median_duration(words: Sequence[WordTiming]) -> float:
    """How long a word takes, at most 0.7 s."""
    durations = [word.end - word.start for word in words if word.end != word.start]
    return min(LONGEST_MEDIAN, float(np.median(durations))) if durations else 0.0


def shorten_sentence_ends(words: Sequence[WordTiming], longest: float) -> None:
    """A sign that ends a sentence, and the word behind it, take no longer than `longest`."""
    for before, word in itertools.pairwise(words):
        if word.end - word.start > longest:
            if word.word in SENTENCE_ENDS:
                word.end = word.start + longest
            elif before.word in SENTENCE_ENDS:
                word.start = word.end - longest


def join_punctuation(words: list[WordTiming]) -> None:
    """Signs become part of the word that they open or close; what they were stays as a word without text."""
    following = len(words) - 1
    for place in range(len(words) - 2, -1, -1):
        sign, word = words[place], words[following]
        if sign.word.startswith(" ") and sign.word.strip() in OPENING:
            word.word, word.tokens = sign.word + word.word, sign.tokens + word.tokens
            sign.word, sign.tokens = "", []
        else:
            following = place
    previous = 0
    for place in range(1, len(words)):
        word, sign = words[previous], words[place]
        if not word.word.endswith(" ") and sign.word in CLOSING:
            word.word, word.tokens = word.word + sign.word, word.tokens + sign.tokens
            sign.word, sign.tokens = "", []
        else:
            previous = place
