"""Run by an interpreter that has openai-whisper: transcribes arrays, and writes what it says as JSON.

python openai_whisper.py MODEL.pt HEADS ARRAYS.npz OUTPUT.json, HEADS being [[layer, head], ...] of the alignment
"""

import json
import sys

import numpy as np
import torch
import whisper

checkpoint, heads, arrays, output = sys.argv[1:]
torch.set_num_threads(1)
model = whisper.load_model(checkpoint, device="cpu").float()
mask = torch.zeros(model.dims.n_text_layer, model.dims.n_text_head, dtype=torch.bool)
for layer, head in json.loads(heads):
    mask[layer, head] = True
model.register_buffer("alignment_heads", mask.to_sparse(), persistent=False)
results = {}
for name, sound in np.load(arrays).items():
    options = {"word_timestamps": True} if name.endswith("words") else {}
    options |= {"beam_size": 5} if name.endswith("beams") else {}
    said = model.transcribe(sound, fp16=False, temperature=0.0, **options)
    results[name] = {
        "text": said["text"],
        "segments": [
            {
                **{key: segment[key] for key in ("start", "end", "text", "tokens", "avg_logprob", "no_speech_prob")},
                "words": [
                    [w["word"], float(w["start"]), float(w["end"]), float(w["probability"])]
                    for w in segment.get("words", ())
                ],
            }
            for segment in said["segments"]
        ],
    }
with open(output, "w") as file:
    json.dump(results, file)
