"""The form of a model that exporters trace: every position stays in, and the numbers are those of the stream."""

from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError
from glassformer.export.onnx_file import accepted_inputs
from glassformer.export.padded_model import PAST, ExportableModel, cache_names, tensor_outputs

from ..models.architectures import ARCHITECTURES, BERT, GPT2

OWN_PASS = ("xlnet", "transfo-xl", "performer", "longformer")  # their body is not run by `Body.encode` alone


def batch(multiple_choice: bool) -> dict[str, torch.Tensor]:
    ids, mask = torch.randint(5, 50, (3, 7)), torch.ones(3, 7, dtype=torch.long)
    mask[0, 4:] = 0
    mask[2, 6:] = 0
    ids[mask == 0] = 0
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    return {name: value[:, None].repeat(1, 2, 1) for name, value in values.items()} if multiple_choice else values


CASES = [(arch, kind) for arch in ARCHITECTURES if arch.model_type not in OWN_PASS for kind in (arch.body, *arch.heads)]


@pytest.mark.parametrize(("arch", "kind"), CASES, ids=[kind.__name__ for _, kind in CASES])
def test_every_model_computes_the_same_with_padding(arch, kind):
    torch.manual_seed(0)
    model = kind(arch.tiny()).double().eval()
    inputs = accepted_inputs(model, batch("MultipleChoice" in kind.__name__))
    with torch.no_grad():
        expected = model(**inputs)
        names = tensor_outputs(expected)
        found = ExportableModel(model, list(inputs), names)(*inputs.values())
    assert names
    for name, value in zip(names, found, strict=True):
        torch.testing.assert_close(value, expected[name], atol=1e-10, rtol=0)


def test_a_step_behind_a_past_equals_the_whole():
    torch.manual_seed(0)
    model = GPT2.decoder(GPT2.tiny()).double().eval()
    ids = torch.randint(5, 50, (2, 9))
    exportable = ExportableModel(model, ["input_ids", "attention_mask", "position_ids"], ["logits"], len(model.layers))
    assert exportable.input_names[3:] == cache_names(PAST, 3)
    with torch.no_grad():
        empty = [torch.zeros(2, 4, 0, 12, dtype=torch.double) for _ in range(6)]
        ones, places = torch.ones(2, 9, dtype=torch.long), torch.arange(9).repeat(2, 1)
        first, *past = exportable(ids[:, :5], ones[:, :5], places[:, :5], *empty)
        second, *_ = exportable(ids[:, 5:], ones, places[:, 5:], *past)
        torch.testing.assert_close(torch.cat((first, second), 1), model(ids).logits, atol=1e-10, rtol=0)


def test_the_model_itself_stays_as_it_is():
    model = BERT.body(BERT.tiny()).eval()
    ExportableModel(model, ["input_ids"], ["last_hidden_state"])
    with pytest.raises(InputError, match="whole numbers"):
        model(torch.ones(1, 3))


def test_a_body_with_a_pass_of_its_own_is_refused():
    kind = next(arch for arch in ARCHITECTURES if arch.model_type == "xlnet")
    with pytest.raises(InputError, match="XLNetModel cannot be exported"):
        ExportableModel(kind.body(kind.tiny()), ["input_ids"], ["last_hidden_state"])
