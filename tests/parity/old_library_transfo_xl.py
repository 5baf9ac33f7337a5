"""Run by the transformers 4 interpreter: Transformer-XLs that read a text part by part, and generate behind a prompt.

python old_library_transfo_xl.py FOLDER, which holds cases.json and a folder for each case with model and batch
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file


def flatten(name, value):
    if torch.is_tensor(value):
        return {name: value.contiguous().clone()}
    return {k: v for i, each in enumerate(value) for k, v in flatten(f"{name}.{i}", each).items()}


def run(case, folder):
    model, info = getattr(transformers, case["kind"]).from_pretrained(folder / "model", output_loading_info=True)
    constants = {name for name, _ in model.named_buffers()}
    tied = {name for name in info["missing_keys"] if name.startswith("crit.out_")}
    assert not set(info["missing_keys"]) - constants - tied, (case, info)
    assert not any(info[key] for key in ("unexpected_keys", "mismatched_keys")), (case, info)
    model.save_pretrained(folder / "saved", safe_serialization=case["safe"])
    model = model.double().eval()
    batch = load_file(folder / "batch.safetensors")
    values, mems = {}, None
    with torch.no_grad():
        for part in range(case["parts"]):
            given = {name[2:]: value for name, value in batch.items() if name.startswith(f"{part}.")}
            out = model(**given, mems=mems, **case["flags"])
            mems = out.mems if "mems" in out else None
            values.update((f"{part}.{k}", v) for name, value in out.items() for k, v in flatten(name, value).items())
        for name, settings in case["generated"].items():
            found = model.generate(batch["0.input_ids"], **settings)
            values[f"generated.{name}"] = found.contiguous()
    save_file(values, folder / "out.safetensors")


to_float = torch.Tensor.float  # its attention masks scores in float32, whatever the weights are
torch.Tensor.float = lambda self: self if self.dtype == torch.float64 else to_float(self)
root = Path(sys.argv[1])
for case in json.loads((root / "cases.json").read_text()):
    run(case, root / case["name"])


def read_texts(folder):
    """Words of the original's tokenizer: from a list of words that we wrote, saved as a pickle."""
    tokenizer = transformers.TransfoXLTokenizer.from_pretrained(folder / "ours")
    tokenizer.save_pretrained(folder / "theirs")
    texts = json.loads((folder / "texts.json").read_text())
    found = [[tokenizer.tokenize(text), tokenizer(text)["input_ids"]] for text in texts]
    decoded = [tokenizer.convert_tokens_to_string(words) for words, _ in found]
    (folder / "found.json").write_text(json.dumps([found, decoded]))


if (root / "words").exists():
    read_texts(root / "words")
print(transformers.__version__)
