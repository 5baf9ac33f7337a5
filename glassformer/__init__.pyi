"""What type checkers see: every public name, imported as it is. A test keeps it equal to `__all__`."""

from .checkpoints.config import PretrainedConfig as PretrainedConfig
from .data.file_row import Row as Row
from .data.labels import class_weights as class_weights
from .data.labels import count_labels as count_labels
from .data.labels import make_label2id as make_label2id
from .data.parallel_text import read_parallel as read_parallel
from .data.readers import read_rows as read_rows
from .data.shuffle import shuffled as shuffled
from .data.shuffle import split as split
from .errors import (
    ArgumentError as ArgumentError,
)
from .errors import (
    CheckpointError as CheckpointError,
)
from .errors import (
    ConfigError as ConfigError,
)
from .errors import (
    DamagedFileError as DamagedFileError,
)
from .errors import (
    DataError as DataError,
)
from .errors import (
    GlassformerError as GlassformerError,
)
from .errors import (
    HubError as HubError,
)
from .errors import (
    InputError as InputError,
)
from .errors import (
    TokenizerError as TokenizerError,
)
from .errors import (
    TrainingError as TrainingError,
)
from .errors import (
    UnsafeFileError as UnsafeFileError,
)
from .errors import (
    WeightsError as WeightsError,
)
from .explain.analysis.alignment import align as align
from .explain.analysis.head_importance import ablation_curve as ablation_curve
from .explain.analysis.head_importance import head_importance as head_importance
from .explain.capture import capture as capture
from .explain.capture import run_with_cache as run_with_cache
from .explain.pages.alignment_page import write_alignments as write_alignments
from .explain.pages.bertviz_views import head_view as head_view
from .explain.pages.bertviz_views import model_view as model_view
from .explain.pages.bertviz_views import neuron_view as neuron_view
from .explain.pages.image_files import draw_alignment as draw_alignment
from .explain.pages.image_files import draw_heads as draw_heads
from .explain.patch import patched as patched
from .explain.subject import Subject as Subject
from .generate.config import GenerationConfig as GenerationConfig
from .generate.explain import explain_generation as explain_generation
from .generate.job import GenerateOutput as GenerateOutput
from .generate.streaming import (
    TextIteratorStreamer as TextIteratorStreamer,
)
from .generate.streaming import (
    TextStreamer as TextStreamer,
)
from .generate.streaming import (
    stream_text as stream_text,
)
from .models.auto import (
    AutoConfig as AutoConfig,
)
from .models.auto import (
    AutoModel as AutoModel,
)
from .models.auto import (
    AutoModelForCausalLM as AutoModelForCausalLM,
)
from .models.auto import (
    AutoModelForMaskedLM as AutoModelForMaskedLM,
)
from .models.auto import (
    AutoModelForMultipleChoice as AutoModelForMultipleChoice,
)
from .models.auto import (
    AutoModelForNextSentencePrediction as AutoModelForNextSentencePrediction,
)
from .models.auto import (
    AutoModelForPreTraining as AutoModelForPreTraining,
)
from .models.auto import (
    AutoModelForQuestionAnswering as AutoModelForQuestionAnswering,
)
from .models.auto import AutoModelForSeq2SeqLM as AutoModelForSeq2SeqLM
from .models.auto import (
    AutoModelForSequenceClassification as AutoModelForSequenceClassification,
)
from .models.auto import (
    AutoModelForTokenClassification as AutoModelForTokenClassification,
)
from .models.base import PreTrainedModel as PreTrainedModel
from .models.bert import BertConfig as BertConfig
from .models.bert import BertModel as BertModel
from .models.bert import BertPreTrainedModel as BertPreTrainedModel
from .models.bert_heads import (
    BertForMaskedLM as BertForMaskedLM,
)
from .models.bert_heads import (
    BertForMultipleChoice as BertForMultipleChoice,
)
from .models.bert_heads import (
    BertForNextSentencePrediction as BertForNextSentencePrediction,
)
from .models.bert_heads import (
    BertForPreTraining as BertForPreTraining,
)
from .models.bert_heads import (
    BertForQuestionAnswering as BertForQuestionAnswering,
)
from .models.bert_heads import (
    BertForSequenceClassification as BertForSequenceClassification,
)
from .models.bert_heads import (
    BertForTokenClassification as BertForTokenClassification,
)
from .models.bert_heads import (
    BertLMHeadModel as BertLMHeadModel,
)
from .models.distilbert import (
    DistilBertConfig as DistilBertConfig,
)
from .models.distilbert import (
    DistilBertModel as DistilBertModel,
)
from .models.distilbert import (
    DistilBertPreTrainedModel as DistilBertPreTrainedModel,
)
from .models.distilbert_heads import (
    DistilBertForMaskedLM as DistilBertForMaskedLM,
)
from .models.distilbert_heads import (
    DistilBertForMultipleChoice as DistilBertForMultipleChoice,
)
from .models.distilbert_heads import (
    DistilBertForQuestionAnswering as DistilBertForQuestionAnswering,
)
from .models.distilbert_heads import (
    DistilBertForSequenceClassification as DistilBertForSequenceClassification,
)
from .models.distilbert_heads import (
    DistilBertForTokenClassification as DistilBertForTokenClassification,
)
from .models.gpt2 import GPT2Config as GPT2Config
from .models.gpt2 import GPT2Model as GPT2Model
from .models.gpt2 import GPT2PreTrainedModel as GPT2PreTrainedModel
from .models.gpt2_heads import (
    GPT2ForSequenceClassification as GPT2ForSequenceClassification,
)
from .models.gpt2_heads import (
    GPT2LMHeadModel as GPT2LMHeadModel,
)
from .models.lora import LoraConfig as LoraConfig
from .models.lora import add_lora as add_lora
from .models.lora import load_lora as load_lora
from .models.lora import merge_lora as merge_lora
from .models.lora import unmerge_lora as unmerge_lora
from .models.openai_gpt import (
    OpenAIGPTConfig as OpenAIGPTConfig,
)
from .models.openai_gpt import (
    OpenAIGPTForSequenceClassification as OpenAIGPTForSequenceClassification,
)
from .models.openai_gpt import (
    OpenAIGPTLMHeadModel as OpenAIGPTLMHeadModel,
)
from .models.openai_gpt import (
    OpenAIGPTModel as OpenAIGPTModel,
)
from .models.openai_gpt import (
    OpenAIGPTPreTrainedModel as OpenAIGPTPreTrainedModel,
)
from .models.outputs import (
    BaseModelOutput as BaseModelOutput,
)
from .models.outputs import (
    BaseModelOutputWithPastAndCrossAttentions as BaseModelOutputWithPastAndCrossAttentions,
)
from .models.outputs import (
    BaseModelOutputWithPoolingAndCrossAttentions as BaseModelOutputWithPoolingAndCrossAttentions,
)
from .models.outputs import (
    BertForPreTrainingOutput as BertForPreTrainingOutput,
)
from .models.outputs import (
    CausalLMOutputWithCrossAttentions as CausalLMOutputWithCrossAttentions,
)
from .models.outputs import (
    MaskedLMOutput as MaskedLMOutput,
)
from .models.outputs import (
    ModelOutput as ModelOutput,
)
from .models.outputs import (
    MultipleChoiceModelOutput as MultipleChoiceModelOutput,
)
from .models.outputs import (
    NextSentencePredictorOutput as NextSentencePredictorOutput,
)
from .models.outputs import (
    QuestionAnsweringModelOutput as QuestionAnsweringModelOutput,
)
from .models.outputs import Seq2SeqLMOutput as Seq2SeqLMOutput
from .models.outputs import (
    SequenceClassifierOutput as SequenceClassifierOutput,
)
from .models.outputs import (
    SequenceClassifierOutputWithPast as SequenceClassifierOutputWithPast,
)
from .models.outputs import (
    TokenClassifierOutput as TokenClassifierOutput,
)
from .models.parameters import count_parameters as count_parameters
from .models.parameters import freeze as freeze
from .models.rnn import RNNConfig as RNNConfig
from .models.rnn import RNNForSeq2SeqLM as RNNForSeq2SeqLM
from .models.transformer import TransformerConfig as TransformerConfig
from .models.transformer import TransformerForSeq2SeqLM as TransformerForSeq2SeqLM
from .models.transformer_layers import DecoderLayer as DecoderLayer
from .models.transformer_layers import EncoderLayer as EncoderLayer
from .models.transformer_layers import TransformerDecoderLayer as TransformerDecoderLayer
from .models.transformer_layers import TransformerEncoderLayer as TransformerEncoderLayer
from .models.transformer_tutorial import Transformer as Transformer
from .nn.additive import BahdanauAttention as BahdanauAttention
from .nn.additive import LuongAttention as LuongAttention
from .nn.feedforward import PositionwiseFeedForward as PositionwiseFeedForward
from .nn.multi_head import MultiHeadAttention as MultiHeadAttention
from .nn.multi_head import ScaledDotProductAttention as ScaledDotProductAttention
from .nn.norm import LayerNorm as LayerNorm
from .nn.position import PositionalEncoding as PositionalEncoding
from .nn.quantize import quantize as quantize
from .tasks.feature_extraction import FeatureExtraction as FeatureExtraction
from .tasks.generation.summarization import Summarization as Summarization
from .tasks.generation.text_generation import TextGeneration as TextGeneration
from .tasks.generation.translation import Translation as Translation
from .tasks.language_modeling.fill_mask import FillMask as FillMask
from .tasks.language_modeling.masked_language_modeling import MaskedLanguageModeling as MaskedLanguageModeling
from .tasks.language_modeling.pre_training import PreTraining as PreTraining
from .tasks.multiple_choice import MultipleChoice as MultipleChoice
from .tasks.next_sentence import NextSentence as NextSentence
from .tasks.pipeline import Pipeline as Pipeline
from .tasks.pipeline import pipeline as pipeline
from .tasks.question_answering import QuestionAnswering as QuestionAnswering
from .tasks.sentences.sentence_encoder import SentenceEncoder as SentenceEncoder
from .tasks.sentences.sentence_similarity import SentenceSimilarity as SentenceSimilarity
from .tasks.task import Task as Task
from .tasks.text_classification import TextClassification as TextClassification
from .tasks.token_classification import TokenClassification as TokenClassification
from .tasks.zero_shot_classification import ZeroShotClassification as ZeroShotClassification
from .text.auto_tokenizer import AutoTokenizer as AutoTokenizer
from .text.bert_tokenizer import BertTokenizer as BertTokenizer
from .text.bert_tokenizer import BertTokenizerFast as BertTokenizerFast
from .text.distilbert_tokenizer import (
    DistilBertTokenizer as DistilBertTokenizer,
)
from .text.distilbert_tokenizer import (
    DistilBertTokenizerFast as DistilBertTokenizerFast,
)
from .text.encoding import BatchEncoding as BatchEncoding
from .text.gpt2_tokenizer import GPT2Tokenizer as GPT2Tokenizer
from .text.gpt2_tokenizer import GPT2TokenizerFast as GPT2TokenizerFast
from .text.openai_gpt_tokenizer import OpenAIGPTTokenizer as OpenAIGPTTokenizer
from .text.openai_gpt_tokenizer import OpenAIGPTTokenizerFast as OpenAIGPTTokenizerFast
from .text.roberta_tokenizer import RobertaTokenizer as RobertaTokenizer
from .text.roberta_tokenizer import RobertaTokenizerFast as RobertaTokenizerFast
from .text.tokenizer import PreTrainedTokenizer as PreTrainedTokenizer
from .text.training.new_tokenizer import train_tokenizer as train_tokenizer
from .text.training.vocabulary_training import train_vocabulary as train_vocabulary
from .train.distill import DistillSettings as DistillSettings
from .train.evaluation import evaluate as evaluate
from .train.optimizer import AdamW as AdamW
from .train.optimizer import parameter_groups as parameter_groups
from .train.result import TrainResult as TrainResult
from .train.schedule import SchedulerType as SchedulerType
from .train.schedule import get_constant_schedule as get_constant_schedule
from .train.schedule import get_constant_schedule_with_warmup as get_constant_schedule_with_warmup
from .train.schedule import get_cosine_schedule_with_warmup as get_cosine_schedule_with_warmup
from .train.schedule import (
    get_cosine_with_hard_restarts_schedule_with_warmup as get_cosine_with_hard_restarts_schedule_with_warmup,
)
from .train.schedule import get_inverse_sqrt_schedule as get_inverse_sqrt_schedule
from .train.schedule import get_linear_schedule_with_warmup as get_linear_schedule_with_warmup
from .train.schedule import get_polynomial_decay_schedule_with_warmup as get_polynomial_decay_schedule_with_warmup
from .train.schedule import get_scheduler as get_scheduler
from .train.schedule import get_wsd_schedule as get_wsd_schedule
from .train.train_settings import TrainSettings as TrainSettings
from .train.trainer import Trainer as Trainer

__version__: str
__all__: list[str]
