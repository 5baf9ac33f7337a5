"""What to use in place of a public name that does not exist: a misspelt one, or one of another library."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from .registry import ARCHITECTURES

TASK_COLLATES = "a task collates its rows itself, and tokenizer(texts, padding=True) pads"
# Names of transformers, sentence-transformers, peft and datasets, and what has their place here.
INSTEAD = {
    "AutoModelWithLMHead": "AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSeq2SeqLM loads the head",
    "BitsAndBytesConfig": "quantize(model) keeps the weights of a loaded model in 8 bits",
    "CrossEncoder": "TextClassification reads a sentence pair as one input",
    "DataCollatorForLanguageModeling": "the tasks MaskedLanguageModeling and TextGeneration make their own labels",
    "DataCollatorForWholeWordMask": "MaskedLanguageModeling masks whole words with mask_whole_words=True",
    "Dataset": "read_rows reads the rows of a file",
    "EarlyStoppingCallback": "TrainSettings has early_stopping_patience",
    "HfArgumentParser": "a recipe for glass train holds all settings",
    "InputExample": "rows are mappings such as {'text': ..., 'label': ...}",
    "LineByLineTextDataset": "read_rows reads the lines of a file",
    "PeftModel": "load_lora loads an adapter into a model",
    "PreTrainedTokenizerBase": "PreTrainedTokenizer is the base of all tokenizers",
    "PreTrainedTokenizerFast": "PreTrainedTokenizer is the base of all tokenizers, which are all fast",
    "SentenceTransformer": "SentenceEncoder reads the same folders, with encode and similarity",
    "Seq2SeqTrainer": "Trainer trains every task",
    "Seq2SeqTrainingArguments": "TrainSettings has most of its fields, by the same names",
    "TextDataset": "read_rows reads the lines of a file",
    "TrainerCallback": "a Trainer writes log.jsonl, and event files with TrainSettings(tensorboard=True)",
    "TrainingArguments": "TrainSettings has most of its fields, by the same names",
    "default_data_collator": TASK_COLLATES,
    "get_peft_model": "add_lora adds an adapter to a model",
    "load_dataset": "read_rows reads the rows of a file, a folder or a data set of a hub",
    "logging": "messages go to Python's own logging.getLogger('glassformer')",
}
CLASS_NAME = re.compile(r"(?P<family>[A-Z]\w*?)(?P<kind>For[A-Z]\w*|LMHeadModel|PreTrainedModel|Model|Config)")
FAMILIES = {"Auto", *(each.config.rpartition(".")[2].removesuffix("Config") for each in ARCHITECTURES.values())}


def suggest(name: str, public: Collection[str]) -> str:
    """The end of a message that a name is unknown: what to use in its place, or nothing.

    >>> suggest("BertModl", ["BertModel", "BertConfig"])
    ", did you mean 'BertModel'?"
    >>> suggest("TFBertModel", ["BertModel", "BertConfig"])
    ": models are torch modules here, use 'BertModel'"
    """
    if name.startswith("_"):
        return ""
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    return f": {hint}" if (hint := hint_by_form(name, public)) else nearest_spelling(name, public)


def hint_by_form(name: str, public: Collection[str]) -> str:
    """What to use for a name that is built like many others."""
    if name.startswith("DataCollator"):
        return TASK_COLLATES
    for prefix in ("TF", "Flax"):
        if name.startswith(prefix) and name.removeprefix(prefix) in public:
            return f"models are torch modules here, use {name.removeprefix(prefix)!r}"
    if name.endswith("Pipeline") and (task := name.removesuffix("Pipeline")) in public:
        return f"pipeline({re.sub('(?<!^)(?=[A-Z])', '-', task).lower()!r}) makes it"
    return missing_class(name, public)


def missing_class(name: str, public: Collection[str]) -> str:
    """For a class of a model that is not there: the classes of its architecture, or the architectures there are."""
    parts = CLASS_NAME.fullmatch(name)
    if not parts or plain(name) in map(plain, public):
        return ""
    family = max((each for each in FAMILIES if name.startswith(each)), key=len, default=None)
    if family and any(each.endswith(parts["kind"]) for each in public):
        return "there are " + ", ".join(
            sorted(each for each in public if CLASS_NAME.fullmatch(each) and each.startswith(family))
        )
    if family or difflib.get_close_matches(parts["family"], FAMILIES, n=1, cutoff=0.85):
        return ""  # misspelt
    return f"the architectures are {', '.join(sorted(ARCHITECTURES))}"


def nearest_spelling(name: str, public: Collection[str]) -> str:
    by_spelling = {plain(each): each for each in sorted(public)}
    close = difflib.get_close_matches(plain(name), by_spelling, n=1)
    return f", did you mean {by_spelling[close[0]]!r}?" if close else ""


def plain(name: str) -> str:
    """A name without what modules and classes differ in: capitals and underscores."""
    return name.replace("_", "").lower()
