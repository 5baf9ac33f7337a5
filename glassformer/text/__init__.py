"""Text to ids and back: tokenizers, what they give, their explanation, and the training of vocabularies."""

from .albert_tokenizer import AlbertTokenizer, AlbertTokenizerFast
from .auto_tokenizer import AutoTokenizer
from .base.special_tokens import AddedToken
from .bert_tokenizer import BertTokenizer, BertTokenizerFast
from .camembert_tokenizer import CamembertTokenizer, CamembertTokenizerFast
from .deberta_tokenizer import DebertaTokenizer, DebertaTokenizerFast
from .deberta_v2_tokenizer import DebertaV2Tokenizer, DebertaV2TokenizerFast
from .distilbert_tokenizer import DistilBertTokenizer, DistilBertTokenizerFast
from .encoding import BatchEncoding
from .explanation.explain_wordpiece import Explanation
from .funnel_tokenizer import FunnelTokenizer, FunnelTokenizerFast
from .gpt2_tokenizer import GPT2Tokenizer, GPT2TokenizerFast
from .openai_gpt_tokenizer import OpenAIGPTTokenizer, OpenAIGPTTokenizerFast
from .roberta_tokenizer import RobertaTokenizer, RobertaTokenizerFast
from .t5_tokenizer import T5Tokenizer, T5TokenizerFast
from .tokenizer import PreTrainedTokenizer
from .training.trained_vocabulary import Vocabulary
from .training.vocabulary_training import train_vocabulary
from .transfo_xl_tokenizer import TransfoXLTokenizer, TransfoXLTokenizerFast
from .xlm_roberta_tokenizer import XLMRobertaTokenizer, XLMRobertaTokenizerFast
from .xlnet_tokenizer import XLNetTokenizer, XLNetTokenizerFast

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
    "DebertaTokenizer",
    "DebertaTokenizerFast",
    "DebertaV2Tokenizer",
    "DebertaV2TokenizerFast",
    "DistilBertTokenizer",
    "DistilBertTokenizerFast",
    "Explanation",
    "FunnelTokenizer",
    "FunnelTokenizerFast",
    "GPT2Tokenizer",
    "GPT2TokenizerFast",
    "OpenAIGPTTokenizer",
    "OpenAIGPTTokenizerFast",
    "PreTrainedTokenizer",
    "RobertaTokenizer",
    "RobertaTokenizerFast",
    "T5Tokenizer",
    "T5TokenizerFast",
    "TransfoXLTokenizer",
    "TransfoXLTokenizerFast",
    "Vocabulary",
    "XLMRobertaTokenizer",
    "XLMRobertaTokenizerFast",
    "XLNetTokenizer",
    "XLNetTokenizerFast",
    "train_vocabulary",
]
