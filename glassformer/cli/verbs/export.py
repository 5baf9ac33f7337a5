"""`glass export`: a checkpoint as a file of another runtime."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from ...errors import InputError
from ..output.terminal import print_json
from ..rows.input_rows import RowInput

ROWS = 32  # of a file, by which an exported model is checked


def export(
    folder: Positional[Annotated[str, arg(metavar="FOLDER")]],
    /,
    *,
    to: Literal["onnx", "gguf"],
    output: Annotated[str, arg(metavar="PATH", aliases=["-o"])],
    task: Annotated[str | None, arg(metavar="TASK")] = None,
    weights: Literal["f32", "f16", "q8_0", "q4_0"] = "f16",
    row_input: Annotated[RowInput, arg(name="")] = RowInput(),  # noqa: B008
    tolerance: Annotated[float, arg(metavar="X")] = 1e-4,
    json: bool = False,
) -> int:
    """Write a checkpoint as ONNX, for onnxruntime and others, or as GGUF, for llama.cpp.

    ONNX: any encoder or decoder with any of its heads, and sentence encoders with their pooling. PATH is a folder,
    which gets model.onnx, the config and the tokenizer. A model that predicts the next word takes and returns its KV
    cache. The file is run in onnxruntime before it takes its place, and must compute what the model computes.

    GGUF: a BERT that makes vectors, or a GPT-2. PATH is the file. `glass verify --exported` compares either kind.

    Needs: pip install 'glassformer[export]'

    examples:
      glass export ./sst2 --to onnx -o ./sst2-onnx
      glass export ./sst2 --to onnx -o ./sst2-onnx --input dev.tsv
      glass export ./all-MiniLM-L6-v2 --to gguf -o minilm.gguf --weights q8_0
      glass export ./gpt2 --to gguf -o gpt2.gguf

    Args:
        folder: A checkpoint folder or a name on the hub.
        to: The format.
        output: Where to write: a folder for ONNX, a file for GGUF.
        task: For ONNX: what the model is exported for, such as fill-mask; that of the checkpoint's own head if not
            given.
        weights: For GGUF: how matrices are written. q8_0 and q4_0 round them to 8 and 4 bits.
        tolerance: For ONNX: the largest difference that is allowed, as a part of the largest value if that is above 1.
        json: Print JSON.
    """
    from ...export.export_folder import TEXTS, export_gguf, export_onnx

    if not tolerance > 0:
        raise InputError(f"--tolerance must be above 0, got {tolerance}")
    if to == "gguf":
        if task is not None or row_input.input:
            raise InputError("--task and --input are for ONNX; GGUF is compared by glass verify --exported")
        written = export_gguf(folder, output, weights)
    else:
        rows = islice(row_input.rows(["text"]), ROWS) if row_input.input else ()
        written = export_onnx(folder, output, task, [row["text"] for row in rows] or TEXTS, tolerance)
    if json:
        print_json(written)
        return 0
    print(f"{written['file']}: {written['model_class']}, {written['bytes'] / 1e6:,.1f} MB")
    for name, value in written.get("differences", {}).items():
        print(f"{name}: as the model computes it, within {value:.1e}")
    return 0
