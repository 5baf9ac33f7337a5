"""Text to ids and back: tokenizers, what they give, their explanation, and the training of vocabularies."""

from .auto_tokenizer import AutoTokenizer
from .base.special_tokens import AddedToken
from .bert_tokenizer import BertTokenizer, BertTokenizerFast
from .distilbert_tokenizer import DistilBertTokenizer, DistilBertTokenizerFast
from .encoding import BatchEncoding
from .explanation.explain_wordpiece import Explanation
from .gpt2_tokenizer import GPT2Tokenizer, GPT2TokenizerFast
from .openai_gpt_tokenizer import OpenAIGPTTokenizer, OpenAIGPTTokenizerFast
from .roberta_tokenizer import RobertaTokenizer, RobertaTokenizerFast
from .tokenizer import PreTrainedTokenizer
from .training.trained_vocabulary import Vocabulary
from .training.vocabulary_training import train_vocabulary

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
