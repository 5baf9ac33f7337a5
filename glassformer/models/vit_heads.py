"""ViT's heads: a label for a picture, and the pixels of masked patches."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from ..nn.loss import text_loss
from .base.heads import problem_type
from .base.outputs import ImageClassifierOutput, MaskedImageModelingOutput
from .base.signature import OUTPUTS, takes
from .vit import ViTConfig, ViTModel, ViTPreTrainedModel, as_pair


class ViTForImageClassification(ViTPreTrainedModel):
    """What is in the picture? A linear layer reads the vector of [CLS]."""

    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.vit = ViTModel(self.config, add_pooling_layer=False)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @takes(
        *("pixel_values", "head_mask", "labels", *OUTPUTS[:2], "interpolate_pos_encoding", "return_dict"),
        "attention_mask",
    )
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> ImageClassifierOutput | tuple:
        """Scores of the labels, B L; with `labels` (B) the mean loss."""
        body = self.vit.encode(**inputs)
        logits = self.classifier(body.layout.first(body.rows))  # B L
        loss = None if labels is None else text_loss(logits, labels, problem_type(self, labels))
        return self.as_output(ImageClassifierOutput, body, return_dict, loss=loss, logits=logits)


class ViTForMaskedImageModeling(ViTPreTrainedModel):
    """Which pixels are behind the masked patches (SimMIM, Xie et al. 2021)?"""

    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.vit = ViTModel(self.config, add_pooling_layer=False, use_mask_token=True)
        stride = config.encoder_stride
        self.decoder = nn.Sequential(
            nn.Conv2d(config.hidden_size, stride**2 * config.num_channels, kernel_size=1), nn.PixelShuffle(stride)
        )
        self.post_init()

    @takes(
        *("pixel_values", "bool_masked_pos", "head_mask", *OUTPUTS[:2], "interpolate_pos_encoding", "return_dict"),
        "attention_mask",
    )
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> MaskedImageModelingOutput | tuple:
        """The pictures as they are reconstructed; with `bool_masked_pos` (B P) the mean error of masked pixels."""
        patch, stride = as_pair(self.config.patch_size), self.config.encoder_stride
        mask = inputs.get("bool_masked_pos")
        if mask is not None and patch != (stride, stride):
            raise ConfigError(
                f"bool_masked_pos needs patches that are as large as what is made of them: patch_size is "
                f"{self.config.patch_size}, encoder_stride is {stride}"
            )
        body = self.vit.encode(**inputs)
        pixels: Tensor = inputs["pixel_values"]
        grid = self.vit.embeddings.patch_embeddings.grid_of((pixels.shape[2], pixels.shape[3]))
        patches = body.last_hidden_state[:, 1:].transpose(1, 2).unflatten(2, grid)  # B C rows columns
        made = self.decoder(patches)  # B channels height width
        loss = None
        if mask is not None:
            masked = mask.reshape(-1, 1, *grid).bool()
            masked = masked.repeat_interleave(stride, 2).repeat_interleave(stride, 3)  # B 1 height width
            seen = pixels[..., : made.shape[2], : made.shape[3]].to(made.dtype)
            errors = F.l1_loss(seen, made, reduction="none")
            loss = (errors * masked).sum() / (masked.sum() + 1e-5) / self.config.num_channels
        return self.as_output(MaskedImageModelingOutput, body, return_dict, loss=loss, reconstruction=made)
