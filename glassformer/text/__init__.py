"""Text to ids and back: tokenizers, what they give, their explanation, and the training of vocabularies."""

from .albert_tokenizer import AlbertTokenizer, AlbertTokenizerFast
from .auto_tokenizer import AutoTokenizer
from .base.special_tokens import AddedToken
from .bert_tokenizer import BertTokenizer, BertTokenizerFast
from .camembert_tokenizer import CamembertTokenizer, CamembertTokenizerFast
from .deberta_v2_tokenizer import DebertaV2Tokenizer, DebertaV2TokenizerFast
from .distilbert_tokenizer import DistilBertTokenizer, DistilBertTokenizerFast
from .encoding import BatchEncoding
from .explanation.explain_wordpiece import Explanation
from .gpt2_tokenizer import GPT2Tokenizer, GPT2TokenizerFast
from .openai_gpt_tokenizer import OpenAIGPTTokenizer, OpenAIGPTTokenizerFast
from .roberta_tokenizer import RobertaTokenizer, RobertaTokenizerFast
from .tokenizer import PreTrainedTokenizer
from .training.trained_vocabulary import Vocabulary
from .training.vocabulary_training import train_vocabulary
from .xlm_roberta_tokenizer import XLMRobertaTokenizer, XLMRobertaTokenizerFast

__all__ = [
    "AddedToken",
    "AlbertTokenizer",
    "AlbertTokenizerFast",
    "AutoTokenizer",
    "BatchEncoding",
    "BertTokenizer",
    "BertTokenizerFast",
    "CamembertTokenizer",
    "CamembertTokenizerFast",
    "DebertaV2Tokenizer",
    "DebertaV2TokenizerFast",
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
    "XLMRobertaTokenizer",
    "XLMRobertaTokenizerFast",
    "train_vocabulary",
]
