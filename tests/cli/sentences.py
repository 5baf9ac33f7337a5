"""A tiny Sentence-BERT folder, for the verbs that make vectors."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer import BertModel, SentenceEncoder
from glassformer.text.auto_tokenizer import AutoTokenizer

from ..models.architectures import tiny_bert
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB

TEXTS = ["so good", "the cat sat on the mat in the park .", "我爱北京天安门", "today is so bad !", "the film", ""]


def make_encoder(folder: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    model = BertModel(tiny_bert(vocab_size=len(VOCAB))).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    save(folder, model)
    prompts = {"query": "who ? ", "document": "the film . "}
    SentenceEncoder(model, AutoTokenizer.from_pretrained(folder), prompts=prompts).save_pretrained(folder)
    return folder
