"""Transformers you can see through.

Every public name can be imported from here; its module, and torch with it, is loaded when the name is first used.

>>> from glassformer import BertTokenizer, BertModel
"""

from __future__ import annotations

import importlib
import sys

from .registry import model_paths

__version__ = "0.1.0"

_HOMES = {  # the classes of the registry come on top
    "errors": """GlassformerError ConfigError InputError TokenizerError ArgumentError CheckpointError WeightsError
        DamagedFileError UnsafeFileError HubError DataError TrainingError NotFiniteError""",
    "text.tokenizer": "PreTrainedTokenizer",
    "text.encoding": "BatchEncoding",
    "text.wordpiece.wordpiece": "BasicTokenizer WordpieceTokenizer",
    "text.bert_tokenizer": """BertTokenizer BertTokenizerFast ElectraTokenizer ElectraTokenizerFast ConvBertTokenizer
        ConvBertTokenizerFast LayoutLMTokenizer LayoutLMTokenizerFast LxmertTokenizer
        LxmertTokenizerFast MobileBertTokenizer MobileBertTokenizerFast SqueezeBertTokenizer
        SqueezeBertTokenizerFast""",
    "text.distilbert_tokenizer": """DistilBertTokenizer DistilBertTokenizerFast RetriBertTokenizer
        RetriBertTokenizerFast""",
    "text.gpt2_tokenizer": "GPT2Tokenizer GPT2TokenizerFast",
    "text.openai_gpt_tokenizer": "OpenAIGPTTokenizer OpenAIGPTTokenizerFast",
    "text.roberta_tokenizer": """RobertaTokenizer RobertaTokenizerFast BartTokenizer BartTokenizerFast LEDTokenizer
        LEDTokenizerFast LongformerTokenizer LongformerTokenizerFast""",
    "text.albert_tokenizer": "AlbertTokenizer AlbertTokenizerFast",
    "text.big_bird_tokenizer": "BigBirdTokenizer BigBirdTokenizerFast",
    "text.camembert_tokenizer": "CamembertTokenizer CamembertTokenizerFast",
    "text.deberta_v2_tokenizer": "DebertaV2Tokenizer DebertaV2TokenizerFast",
    "text.xlm_roberta_tokenizer": "XLMRobertaTokenizer XLMRobertaTokenizerFast",
    "text.deberta_tokenizer": "DebertaTokenizer DebertaTokenizerFast",
    "text.funnel_tokenizer": "FunnelTokenizer FunnelTokenizerFast",
    "text.t5_tokenizer": "T5Tokenizer T5TokenizerFast MT5Tokenizer MT5TokenizerFast",
    "text.whisper_tokenizer": "WhisperTokenizer WhisperTokenizerFast",
    "text.transfo_xl_tokenizer": "TransfoXLTokenizer TransfoXLTokenizerFast",
    "text.xlnet_tokenizer": "XLNetTokenizer XLNetTokenizerFast",
    "text.auto_tokenizer": "AutoTokenizer",
    "audio.whisper_feature_extractor": "WhisperFeatureExtractor",
    "audio.whisper_processor": "WhisperProcessor AutoFeatureExtractor AutoProcessor",
    "text.training.vocabulary_training": "train_vocabulary",
    "text.training.new_tokenizer": "train_tokenizer",
    "images.image_processor": "ViTImageProcessor ViTImageProcessorFast ViTFeatureExtractor",
    "images.auto_image_processor": "AutoImageProcessor",
    "nn.quantize": "quantize",
    "nn.activation": "ACT2FN",
    "nn.attention": "prune_linear_layer",
    "nn.multi_head": "ScaledDotProductAttention MultiHeadAttention",
    "nn.rnn_attention": "BahdanauAttention LuongAttention",
    "nn.position": "PositionalEncoding",
    "nn.feedforward": "PositionwiseFeedForward apply_chunking_to_forward",
    "nn.norm": "LayerNorm",
    "checkpoints.pretrained_config": "PretrainedConfig",
    "models.base.pretrained_model": "PreTrainedModel",
    "models.base.parameters": "count_parameters freeze",
    "models.base.linear_attention": "to_performer",
    "models.longformer_conversion": "to_longformer",
    "models.lora": "LoraConfig add_lora merge_lora unmerge_lora load_lora",
    "models.base.outputs": """ModelOutput BaseModelOutput BaseModelOutputWithPastAndCrossAttentions
        BaseModelOutputWithPooling ImageClassifierOutput MaskedImageModelingOutput
        BaseModelOutputWithPoolingAndCrossAttentions BertForPreTrainingOutput AlbertForPreTrainingOutput
        ElectraForPreTrainingOutput MaskedLMOutput
        CausalLMOutputWithCrossAttentions NextSentencePredictorOutput SequenceClassifierOutput
        SequenceClassifierOutputWithPast MultipleChoiceModelOutput TokenClassifierOutput
        QuestionAnsweringModelOutput Seq2SeqLMOutput Seq2SeqModelOutput
        Seq2SeqSequenceClassifierOutput Seq2SeqQuestionAnsweringModelOutput""",
    "models.bert": "BertPreTrainedModel BertEmbeddings BertPooler",
    "models.bert_layers": """BertEncoder BertLayer BertAttention BertSelfAttention BertSelfOutput BertIntermediate
        BertOutput""",
    "models.bert_heads": """BertPredictionHeadTransform BertLMPredictionHead BertOnlyMLMHead BertOnlyNSPHead
        BertPreTrainingHeads""",
    "models.albert": "AlbertPreTrainedModel",
    "models.albert_heads": "AlbertMLMHead AlbertSOPHead",
    "models.electra": "ElectraPreTrainedModel",
    "models.electra_heads": """ElectraDiscriminatorPredictions ElectraGeneratorPredictions
        ElectraClassificationHead""",
    "models.roberta": "RobertaPreTrainedModel RobertaEmbeddings",
    "models.roberta_heads": "RobertaLMHead RobertaClassificationHead",
    "models.deberta": "DebertaPreTrainedModel",
    "models.deberta_v2": "DebertaV2PreTrainedModel",
    "models.ernie": "ErniePreTrainedModel",
    "models.transfo_xl": "TransfoXLPreTrainedModel",
    "models.xlnet": "XLNetPreTrainedModel",
    "models.xlnet_heads": "XLNetForQuestionAnswering",
    "models.gpt2": "GPT2PreTrainedModel",
    "models.vit": "ViTPreTrainedModel",
    "models.whisper": "WhisperPreTrainedModel",
    "models.distilbert": "DistilBertPreTrainedModel",
    "models.openai_gpt": "OpenAIGPTPreTrainedModel",
    "models.transformer_layers": "EncoderLayer DecoderLayer TransformerEncoderLayer TransformerDecoderLayer",
    "models.transformer_tutorial": "Transformer",
    "models.auto": """AutoConfig AutoModel AutoModelForPreTraining AutoModelForMaskedLM AutoModelForCausalLM
        AutoModelForNextSentencePrediction AutoModelForSequenceClassification AutoModelForMultipleChoice
        AutoModelForTokenClassification AutoModelForQuestionAnswering AutoModelForSeq2SeqLM
        AutoModelForImageClassification AutoModelForMaskedImageModeling
        AutoModelForSpeechSeq2Seq AutoModelForAudioClassification""",
    "generate.config": "GenerationConfig",
    "generate.output": "GenerateOutput",
    "generate.settings_explanation": "explain_generation",
    "generate.streaming": "stream_text TextStreamer TextIteratorStreamer",
    "tasks.task": "Task",
    "tasks.text_classification": "TextClassification",
    "tasks.token_classification": "TokenClassification",
    "tasks.question_answering": "QuestionAnswering",
    "tasks.multiple_choice": "MultipleChoice",
    "tasks.next_sentence": "NextSentence",
    "tasks.language_modeling.fill_mask": "FillMask",
    "tasks.language_modeling.masked_language_modeling": "MaskedLanguageModeling",
    "tasks.language_modeling.pre_training": "PreTraining",
    "tasks.language_modeling.permutation_language_modeling": "PermutationLanguageModeling",
    "tasks.language_modeling.span_corruption": "SpanCorruption",
    "tasks.language_modeling.replaced_token_detection": "ReplacedTokenDetection",
    "tasks.feature_extraction": "FeatureExtraction",
    "tasks.images.image_classification": "ImageClassification",
    "tasks.images.image_feature_extraction": "ImageFeatureExtraction",
    "tasks.generation.text_generation": "TextGeneration",
    "tasks.generation.translation": "Translation",
    "tasks.generation.summarization": "Summarization",
    "tasks.generation.text2text_generation": "Text2TextGeneration",
    "tasks.sentences.sentence_encoder": "SentenceEncoder",
    "tasks.sentences.sentence_similarity": "SentenceSimilarity",
    "tasks.sentences.clustering": "cluster_vectors silhouette",
    "tasks.sentences.cluster_summary": "summarise_clusters",
    "explain.pages.cluster_page": "draw_clusters",
    "tasks.speech.loading": "load_transcriber",
    "tasks.speech.speech_recognition": "SpeechRecognition",
    "tasks.speech.audio_classification": "AudioClassification",
    "tasks.zero_shot_classification": "ZeroShotClassification",
    "tasks.pipeline": "Pipeline pipeline",
    "data.readers": "read_rows",
    "data.file_row": "Row",
    "data.parallel_text": "read_parallel",
    "data.shuffle": "shuffled split",
    "data.labels": "count_labels make_label2id class_weights",
    "train.optimizer": "AdamW parameter_groups",
    "train.randomness": "set_seed",
    "train.schedule": """SchedulerType TYPE_TO_SCHEDULER_FUNCTION get_scheduler get_constant_schedule
        get_constant_schedule_with_warmup get_linear_schedule_with_warmup get_cosine_schedule_with_warmup
        get_cosine_with_hard_restarts_schedule_with_warmup get_polynomial_decay_schedule_with_warmup
        get_inverse_sqrt_schedule get_wsd_schedule""",
    "train.train_settings": "TrainSettings",
    "train.trainer": "Trainer",
    "train.result": "TrainResult",
    "train.distill": "DistillSettings",
    "train.evaluation": "evaluate",
    "train.evaluation_report": "evaluation_report EvaluationReport",
    "explain.pages.bertviz_views": "head_view model_view neuron_view",
    "explain.capture": "capture run_with_cache",
    "explain.patch": "patched",
    "explain.subject": "Subject",
    "explain.analysis.head_importance": "head_importance ablation_curve",
    "explain.analysis.relation_probe": "probe_relations read_relation_sentences",
    "explain.analysis.answer_explanation": "explain_answer AnswerExplanation",
    "explain.analysis.alignment": "align",
    "explain.analysis.attention_rollout": "attention_rollout",
    "explain.pages.alignment_page": "write_alignments",
    "explain.pages.image_files": "draw_alignment draw_heads",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()} | model_paths()

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str):
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    from importlib.util import find_spec

    from .name_suggestions import suggest

    message = f"glassformer has no {name!r}{suggest(name, _HOME_OF)}"
    # `from glassformer import NAME` looks for a module when it gets an AttributeError, and drops the message; hasattr
    # and getattr with a default need one.
    if sys._getframe(1).f_code.co_name == "_handle_fromlist" and not find_spec(f"{__name__}.{name}"):
        raise ImportError(message, name=__name__, path=__file__)
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(__all__)
