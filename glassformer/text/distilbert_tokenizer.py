"""DistilBERT's tokenizer: BERT's, for a model that knows no segments."""

from __future__ import annotations

from .bert_tokenizer import BertTokenizer


class DistilBertTokenizer(BertTokenizer):
    """Text to ids as BERT does it, without `token_type_ids` unless they are requested.

    >>> tokenizer = DistilBertTokenizer.from_pretrained("./distilbert-base-uncased/")   # doctest: +SKIP
    >>> list(tokenizer("so good"))                                                      # doctest: +SKIP
    ['input_ids', 'attention_mask']
    """

    model_input_names = ["input_ids", "attention_mask"]


DistilBertTokenizerFast = DistilBertTokenizer
# A model whose tokenizer is the same under a name of its own.
RetriBertTokenizer = RetriBertTokenizerFast = DistilBertTokenizer
__all__ = ["DistilBertTokenizer", "DistilBertTokenizerFast", "RetriBertTokenizer", "RetriBertTokenizerFast"]
