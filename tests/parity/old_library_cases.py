"""Run by the transformers 4 interpreter: many models in one process, each read, called in float64 and saved again.

python old_library_cases.py FOLDER, which holds cases.json and a folder for each case with model and batch.safetensors
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.deberta import modeling_deberta
from transformers.models.longformer import modeling_longformer
from transformers.models.t5 import modeling_t5


def flatten(name, value):
    if torch.is_tensor(value):
        return {name: value.contiguous().clone()}
    return {k: v for i, each in enumerate(value) for k, v in flatten(f"{name}.{i}", each).items()}


def run(case, folder):
    kind = getattr(transformers, case["kind"])
    model, info = kind.from_pretrained(folder / "model", output_loading_info=True)
    constants = {name for name, _ in model.named_buffers()}  # such as the numbers of positions: made, not learnt
    assert not set(info["missing_keys"]) - constants, (case, info)
    assert not any(info[key] for key in ("unexpected_keys", "mismatched_keys")), (case, info)
    model.save_pretrained(folder / "saved")
    model = model.double().eval()
    batch = load_file(folder / "batch.safetensors")
    with torch.no_grad():
        if case["split"]:
            now, cut = {}, case["split"]
            first = {"input_ids": batch["input_ids"][:, :cut], "attention_mask": batch["attention_mask"][:, :cut]}
            now["past_key_values"] = model(**{**batch, **first}, use_cache=True).past_key_values
            batch["input_ids"] = batch["input_ids"][:, cut:]
            batch |= now
        result = model(**batch, **case["flags"])
    values = {k: v for name, value in result.items() for k, v in flatten(name, value).items()}
    save_file(values, folder / "out.safetensors")


def layer_norm(self, x):
    return torch.nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.variance_epsilon)


def rms_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


# Their own compute in float32, whatever the weights are; so does T5 in its softmax, where it calls `scores.float()`.
modeling_deberta.DebertaLayerNorm.forward = layer_norm
modeling_t5.T5LayerNorm.forward = rms_norm
to_float32 = torch.Tensor.float
torch.Tensor.float = lambda x: x if x.dtype == torch.float64 else to_float32(x)
in_own_type = vars(torch.nn.functional) | {"softmax": lambda x, dim, dtype=None: x.softmax(dim)}
modeling_longformer.nn = SimpleNamespace(**vars(torch.nn) | {"functional": SimpleNamespace(**in_own_type)})  # as above
root = Path(sys.argv[1])
for case in json.loads((root / "cases.json").read_text()):
    run(case, root / case["name"])
print(transformers.__version__)
