"""Run by the transformers 4 interpreter: reads a folder, writes what the model makes of a batch, saves it again.

python old_library.py CLASS FOLDER BATCH.safetensors OUTPUT.safetensors SAVED
"""

import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

name, folder, inputs, outputs, saved = sys.argv[1:]
model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
constants = {name for name, _ in model.named_buffers()}  # such as a triangular mask: made, not learnt
assert not set(info["missing_keys"]) - constants, info
assert not info["mismatched_keys"], info
model.eval()
with torch.no_grad():
    result = model(**load_file(inputs))
save_file({key: value.contiguous() for key, value in result.items() if torch.is_tensor(value)}, outputs)
model.save_pretrained(saved)
print(transformers.__version__)
