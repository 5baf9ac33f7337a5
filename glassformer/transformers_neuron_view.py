"""The names that `bertviz.transformers_neuron_view` has: models whose outputs hold queries and keys.

>>> from glassformer.transformers_neuron_view import BertModel
"""

from .explain.pages.neuron_view import BertModel, DistilBertModel, GPT2Model, OpenAIGPTModel
from .models.bert import BertConfig
from .models.distilbert import DistilBertConfig
from .models.gpt2 import GPT2Config
from .models.openai_gpt import OpenAIGPTConfig
from .text.bert_tokenizer import BertTokenizer
from .text.distilbert_tokenizer import DistilBertTokenizer
from .text.gpt2_tokenizer import GPT2Tokenizer
from .text.openai_gpt_tokenizer import OpenAIGPTTokenizer

__all__ = [
    "BertConfig",
    "BertModel",
    "BertTokenizer",
    "DistilBertConfig",
    "DistilBertModel",
    "DistilBertTokenizer",
    "GPT2Config",
    "GPT2Model",
    "GPT2Tokenizer",
    "OpenAIGPTConfig",
    "OpenAIGPTModel",
    "OpenAIGPTTokenizer",
]
