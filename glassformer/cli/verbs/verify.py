"""`glass verify`: whether a checkpoint reproduces its reference outputs, layer by layer."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import Positional, arg

from ...errors import InputError
from ..output.terminal import print_json, print_table

TOLERANCE = 1e-4


def verify(
    folder: Positional[Annotated[str, arg(metavar="FOLDER")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    record: bool = False,
    exported: Annotated[str, arg(metavar="FILE")] = "",
    tolerance: Annotated[float | None, arg(metavar="X")] = None,
    json: bool = False,
) -> int:
    """Compare a checkpoint's ids and outputs with recorded ones, or with transformers, layer by layer.

    A folder that holds reference.json and reference.safetensors, as --record writes them, is compared with these.
    Otherwise the same texts go through glassformer and an installed transformers. With --exported they go through a
    file that `glass export` wrote, in onnxruntime or llama.cpp. A difference is the largest one of all positions, as a
    part of the largest value if that is above 1. Ends with 1 if one is beyond the tolerance.

    examples:
      glass verify ./bert-base-uncased
      glass verify ./my-model --record
      glass verify ./my-model --tolerance 1e-5 --json
      glass verify ./my-model --exported ./my-model-onnx/model.onnx

    Args:
        folder: A checkpoint folder, or a hub name that is in the cache.
        texts: Your own texts, for --record and for transformers; some are built in.
        record: Write the reference files into the folder instead of comparing.
        exported: The file to compare with, NAME.onnx or NAME.gguf.
        tolerance: The largest difference that is allowed; 1e-4 if not given, and 0.05 for GGUF, where llama.cpp rounds.
        json: Print JSON.
    """
    from ...checkpoints.hub import find_folder
    from ..checks.reference_outputs import (
        compare_with_recorded,
        compare_with_transformers,
        has_reference,
        write_reference,
    )

    if tolerance is not None and not tolerance > 0:
        raise InputError(f"--tolerance must be above 0, got {tolerance}")
    if exported:
        if record:
            raise InputError("give --record or --exported, not both")
        return verify_exported(folder, exported, texts, tolerance, json)
    tolerance = TOLERANCE if tolerance is None else tolerance
    found = find_folder(folder, files=(), local_files_only=True)
    if record:
        summary = write_reference(found, texts)
        print_json(summary) if json else print(
            "{folder}: {tensors} tensors of {texts} texts recorded".format(**summary)
        )
        return 0
    if has_reference(found):
        if texts:
            raise InputError(f"{found} has a reference with texts of its own; give none, or --record others")
        comparison = compare_with_recorded(found)
    else:
        comparison = compare_with_transformers(found, texts)
    values = comparison.to_dict(tolerance)
    if json:
        print_json(values)
        return int(not values["agrees"])
    print(f"{found} ({values['model_class']}) against {values['against']}")
    print(f"token ids: {'the same' if values['same_ids'] else 'NOT the same'}, {values['tokens']} tokens")
    rows = [
        (each["name"], f"{each['difference']:.1e}", f"{each['largest']:.3g}", "ok" if each["agrees"] else "beyond")
        for each in values["values"]
    ]
    print_table(("", "largest difference", "largest value", ""), rows, right=(1, 2))
    return conclude(values["agrees"], tolerance)


def verify_exported(folder: str, file: str, texts: tuple[str, ...], tolerance: float | None, json: bool) -> int:
    """Compare a checkpoint with the file that was made from it."""
    from ...export.comparison import compare_exported

    compared = compare_exported(folder, file, texts)
    tolerance = compared.tolerance if tolerance is None else tolerance
    agrees = compared.agrees(tolerance)
    if json:
        print_json({"file": file, "agrees": agrees, "tolerance": tolerance, **vars(compared)})
        return int(not agrees)
    print(f"{folder} ({compared.model_class}) against {file} in {compared.runtime}")
    if compared.same_ids is not None:
        print(f"token ids: {'the same' if compared.same_ids else 'NOT the same'}")
    rows = [
        (name, f"{value:.1e}", "ok" if value <= tolerance else "beyond") for name, value in compared.differences.items()
    ]
    print_table(("", "largest difference", ""), rows, right=(1,))
    return conclude(agrees, tolerance)


def conclude(agrees: bool, tolerance: float) -> int:
    print(f"{'agrees' if agrees else 'does NOT agree'} within {tolerance:g}")
    return int(not agrees)
