"""Run by the transformers 4 interpreter: pictures processed with several settings.

python old_image_processor.py FOLDER, which holds pictures.npz and cases.json; results.npz is written
"""

import json
import sys
from pathlib import Path

import numpy as np
from transformers import ViTImageProcessor

folder = Path(sys.argv[1])
pictures = np.load(folder / "pictures.npz")
results = {}
for number, settings in enumerate(json.loads((folder / "cases.json").read_text())):
    processor = ViTImageProcessor(**settings)
    for name, picture in pictures.items():
        results[f"{number}.{name}"] = processor(picture)["pixel_values"][0]
np.savez(folder / "results.npz", **results)
