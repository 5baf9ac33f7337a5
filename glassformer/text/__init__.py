"""Text to ids and back: tokenizers, what they give, their explanation, and the training of vocabularies."""

from .auto import AutoTokenizer
from .bert import BertTokenizer, BertTokenizerFast
from .distilbert import DistilBertTokenizer, DistilBertTokenizerFast
from .encoding import BatchEncoding
from .explain import Explanation
from .gpt2 import GPT2Tokenizer, GPT2TokenizerFast
from .openai_gpt import OpenAIGPTTokenizer, OpenAIGPTTokenizerFast
from .roberta import RobertaTokenizer, RobertaTokenizerFast
from .special import AddedToken
from .tokenizer import PreTrainedTokenizer
from .train import train_vocabulary
from .vocabulary import Vocabulary

__all__ = [
    "AddedToken",
    "AutoTokenizer",
    "BatchEncoding",
    "BertTokenizer",
    "BertTokenizerFast",
    "DistilBertTokenizer",
    "DistilBertTokenizerFast",
    "Explanation",
    "GPT2Tokenizer",
    "GPT2TokenizerFast",
    "OpenAIGPTTokenizer",
    "OpenAIGPTTokenizerFast",
    "PreTrainedTokenizer",
    "RobertaTokenizer",
    "RobertaTokenizerFast",
    "Vocabulary",
    "train_vocabulary",
]
