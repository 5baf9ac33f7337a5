"""The Auto classes: the config of a checkpoint determines the architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ..checkpoints.files import read_json
from ..checkpoints.hub import CONFIG_FILES, MODEL_FILES, find_folder, without_pickles
from ..checkpoints.ignored_arguments import IGNORED_BY_MODELS, resolve_ignored_arguments
from ..checkpoints.pretrained_config import CONFIG_FILE, PretrainedConfig
from ..errors import ConfigError, nearest
from ..registry import ARCHITECTURES, BODY, import_class
from .base.pretrained_io import loading_for
from .base.pretrained_model import PreTrainedModel
from .lora import is_adapter, load_lora, read_adapter_config

HUB_ARGUMENTS = ("cache_dir", "revision", "token", "local_files_only", "endpoint")


class AutoConfig:
    """Reads the configuration of any supported architecture."""

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, **arguments: Any) -> PretrainedConfig:
        """The configuration of a folder or hub name, of the class that its `model_type` names."""
        arguments["token"] = resolve_ignored_arguments(arguments, "AutoConfig.from_pretrained", arguments.get("token"))
        hub = {name: arguments[name] for name in HUB_ARGUMENTS if name in arguments}
        folder = find_folder(name_or_path, files=CONFIG_FILES, **hub)
        path = folder if folder.is_file() else folder / CONFIG_FILE
        if not path.exists():
            raise ConfigError(f"{folder} holds no {CONFIG_FILE}")
        return config_class(read_json(path).get("model_type"), path).from_pretrained(name_or_path, **arguments)

    @staticmethod
    def for_model(model_type: str, **fields: Any) -> PretrainedConfig:
        """A new configuration of the class that `model_type` names."""
        return config_class(model_type)(**fields)


def config_class(model_type: Any, path: str | Path = CONFIG_FILE) -> type[PretrainedConfig]:
    """The class of configuration for a `model_type`."""
    if model_type is None:
        raise ConfigError(f"{path} has no model_type; load it with its own class, such as BertConfig")
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        hint = nearest(str(model_type), ARCHITECTURES)
        raise ConfigError(f"{path}: model_type {model_type!r} is not one of {', '.join(ARCHITECTURES)}{hint}")
    return import_class(f"models.{ARCHITECTURES[model_type].config}")


class AutoBase:
    """Builds models of the class that an architecture has for one head."""

    head: ClassVar[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        name = type(self).__name__
        raise TypeError(f"{name} is made by {name}.from_pretrained(folder) or {name}.from_config(config)")

    @classmethod
    def model_class(cls, config: PretrainedConfig) -> type[PreTrainedModel]:
        if not isinstance(config, PretrainedConfig):
            raise ConfigError(f"{cls.__name__} takes a config, such as BertConfig, got {config!r:.80}")
        paths = {kind: each.classes[cls.head] for kind, each in ARCHITECTURES.items() if cls.head in each.classes}
        if config.model_type not in paths:
            known = " or ".join(paths)
            where = config.name_or_path or f"a {type(config).__name__}"
            raise ConfigError(f"{cls.__name__} is for models of the type {known}, and {where} is a {config.model_type}")
        return import_class(f"models.{paths[config.model_type]}")

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, **arguments: Any) -> PreTrainedModel:
        """Load a folder or hub name; arguments as in `PreTrainedModel.from_pretrained`."""
        if isinstance(arguments.get("config"), PretrainedConfig):
            return cls.model_class(arguments["config"]).from_pretrained(name_or_path, **arguments)
        owner, token = f"{cls.__name__}.from_pretrained", arguments.pop("token", None)
        hub = {name: arguments.pop(name) for name in HUB_ARGUMENTS if name in arguments}
        hub["token"] = resolve_ignored_arguments(arguments, owner, token, IGNORED_BY_MODELS)
        files = without_pickles(MODEL_FILES) if arguments.get("use_safetensors") else MODEL_FILES
        folder = find_folder(name_or_path, files=files, **hub)  # config and weights of one commit
        if is_adapter(folder):
            return cls.with_adapter(folder, {**arguments, **hub})
        config = AutoConfig.from_pretrained(arguments.pop("config", None) or folder)
        model = cls.model_class(config).from_pretrained(folder, **arguments)
        model.config.name_or_path = str(name_or_path)
        return model

    @classmethod
    def with_adapter(cls, folder: Path, arguments: dict[str, Any]) -> PreTrainedModel:
        """The base model of an adapter with the adapter; a config.json in its folder holds the labels."""
        base = read_adapter_config(folder).base_model_name_or_path
        if base is None:
            raise ConfigError(f"{folder} holds an adapter that does not name its model; load that, then load_lora")
        if (folder / CONFIG_FILE).exists() and "config" not in arguments:
            arguments["config"] = AutoConfig.from_pretrained(folder)
        with loading_for("adapter"):
            model = cls.from_pretrained(base, **arguments)
        load_lora(model, folder)
        model.log_load_report(base)
        model.config.name_or_path = str(folder)
        return model

    @classmethod
    def from_config(cls, config: PretrainedConfig) -> PreTrainedModel:
        """A new model with random weights."""
        return cls.model_class(config)(config)


class AutoModel(AutoBase):
    head = BODY


class AutoModelForPreTraining(AutoBase):
    head = "pre-training"


class AutoModelForMaskedLM(AutoBase):
    head = "masked-lm"


class AutoModelForCausalLM(AutoBase):
    head = "causal-lm"


class AutoModelForNextSentencePrediction(AutoBase):
    head = "next-sentence"


class AutoModelForSequenceClassification(AutoBase):
    head = "sequence-classification"


class AutoModelForMultipleChoice(AutoBase):
    head = "multiple-choice"


class AutoModelForTokenClassification(AutoBase):
    head = "token-classification"


class AutoModelForQuestionAnswering(AutoBase):
    head = "question-answering"


class AutoModelForSeq2SeqLM(AutoBase):
    head = "seq2seq-lm"


class AutoModelForImageClassification(AutoBase):
    head = "image-classification"


class AutoModelForMaskedImageModeling(AutoBase):
    head = "masked-image-modeling"


class AutoModelForSpeechSeq2Seq(AutoBase):
    head = "speech-seq2seq"


class AutoModelForAudioClassification(AutoBase):
    head = "audio-classification"


AUTO_CLASSES = {kind.head: kind for kind in AutoBase.__subclasses__()}
