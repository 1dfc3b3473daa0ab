"""GRIT as a judge: reads the masked caption and the question, and attends to the whole image and to objects in it.

Source: Nguyen et al., ECCV 2022 (GRIT), its caption generator: after self-attention, words attend to grid features and
to region features separately (parallel cross-attention); each result passes a gate of its own, a sigmoid of the words
and the attended features, before both are added. It is used as a judge like Show, Attend and Tell: caption and template
are given, nothing is generated, the answer is read from the last word, and cross-entropy on it is the only loss. It is
trained for 40 epochs in batches of 128 with Adam, as ImageCaptioner2 trains all its judges (Abdelrahman et al., AAAI
2024, section 5.2), under either protocol.

As published: a Swin as the backbone (ImageNet's, or any of timm's), a grid feature network of self-attention, three
layers of parallel cross-attention with 8 heads, the division of the gated sum by the root of two, sinusoidal positions
of words.

Differences from the published GRIT:

- regions: there a Deformable DETR of 6 layers and 150 queries on four scales of the same Swin, pretrained on Visual
  Genome or on four sets of boxes; here objects that the run's own detector found, with the backbone's last map averaged
  over each box, beside the box's coordinates;
- there training is end to end; here the backbone is frozen, and each image is used once, without augmentation;
- there images of up to 384 x 640 pixels keep their shape; here they are resized to a square;
- there width 512, and three layers with a memory slot in the grid feature network; here 256, one layer, and no memory;
- there training on COCO's captions, by cross-entropy and then for CIDEr (self-critical), and beam search;
- normalisation: there after each part, with a warm-up; here before each, which needs none; and words are added to the
  gated sum once, where there each cross-attention adds them before its gate.

The learning rate, 1e-4, is ours, where section 5.2 refers to LIC's training (5e-5); weights start as torch's layers do,
not by the initialisation that it cites; the epoch with the lowest validation loss is kept.
"""

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from judge.judges import PROMPTED, Backbone, Batch, Blueprint, Recipe
from judge.judges.backbones import SWIN, make_backbone
from judge.judges.encoders import OutputLayer, positions
from judge.judges.sat import Cloze, ClozeJudge, make_cloze_judge
from judge.masking.instances import MAX_BOXES

CODE = 5
"""Columns after a position's features: the box, and 1; all zeros for grid cells and for missing boxes."""


class GridsAndRegions(nn.Module):
    """The last map of a frozen backbone, cell by cell, and its averages over R boxes: [B, cells + R, D + 5]."""

    def __init__(self, backbone: Backbone, *, regions: int = MAX_BOXES) -> None:
        super().__init__()
        self.backbone, self.regions = backbone, regions
        self.prepare = backbone.prepare
        self.key = f"{backbone.key}, averaged over {regions} boxes"

    def forward(self, images: Tensor, boxes: Tensor | None = None) -> Tensor:
        """[B, 3, S, S] and [B, R, 4] -> [B, cells + R, D + 5]; None for no boxes."""
        if boxes is None:
            boxes = images.new_zeros(len(images), self.regions, 4)
        return self.with_regions(self.backbone(images), boxes)

    def with_regions(self, cells: Tensor, boxes: Tensor) -> Tensor:
        """The map's cells, [B, cells, D], then its averages over boxes, [B, R, 4] -> [B, cells + R, D + 5]."""
        real = (boxes[..., 2:] > boxes[..., :2]).all(dim=-1, keepdim=True).to(cells)
        regions = torch.cat([covered(boxes, math.isqrt(cells.shape[1])).to(cells) @ cells, boxes * real, real], -1)
        return torch.cat([pad(cells, (0, CODE)), regions], dim=1)


def covered(boxes: Tensor, side: int) -> Tensor:
    """The share of each box's area in each cell of a ``side`` x ``side`` grid, row by row: [B, R, 4] -> [B, R, cells].

    Shares of a box sum to 1; to 0 for a box without area.
    """
    edges = torch.arange(side + 1, device=boxes.device) / side
    low, high = (boxes[..., :2, None], boxes[..., 2:, None])
    along = (torch.minimum(high, edges[1:]) - torch.maximum(low, edges[:-1])).clamp(min=0)
    shares = (along[..., 1, :, None] * along[..., 0, None, :]).flatten(-2)
    return shares / shares.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)


class Attention(nn.Module):
    """Multi-head attention of [B, T, W] to [B, S, W]."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(
        self, inputs: Tensor, context: Tensor, *, present: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """``present``: [B, S] bool, what can be attended to; ``causal``: only earlier positions can."""
        queries = self.query(inputs).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        keys, values = self.key_value(context).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, dim=1)
        mask = None if present is None else present[:, None, None]
        dropout = self.dropout if self.training else 0.0
        attended = scaled_dot_product_attention(queries, keys, values, mask, dropout, is_causal=causal)
        output: Tensor = self.output(attended.transpose(1, 2).flatten(-2))
        return output


def _feed_forward(width: int, dropout: float) -> nn.Sequential:
    layers = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
    return nn.Sequential(*layers, nn.Dropout(dropout))


class GridLayer(nn.Module):
    """Self-attention of grid cells."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.dropout, self.feed_forward = nn.Dropout(dropout), _feed_forward(width, dropout)

    def forward(self, cells: Tensor) -> Tensor:
        """[B, P, W] -> [B, P, W]."""
        normed = self.norm(cells)
        cells = cells + self.dropout(self.attention(normed, normed))
        output: Tensor = cells + self.feed_forward(cells)
        return output


class ParallelLayer(nn.Module):
    """Words attend to earlier words, then to grid cells and to regions, each through a gate."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm_words, self.norm_attended = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_words, self.to_cells, self.to_regions = (Attention(width, heads, dropout) for _ in range(3))
        self.cell_gate, self.region_gate = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.dropout, self.feed_forward = nn.Dropout(dropout), _feed_forward(width, dropout)

    def forward(self, words: Tensor, cells: Tensor, regions: Tensor, present: Tensor) -> Tensor:
        """[B, T, W], [B, P, W], [B, R, W] and which regions exist, [B, R] -> [B, T, W]."""
        normed = self.norm_words(words)
        words = words + self.dropout(self.to_words(normed, normed, causal=True))
        normed = self.norm_attended(words)
        of_cells, of_regions = self.to_cells(normed, cells), self.to_regions(normed, regions, present=present)
        of_cells = self.cell_gate(torch.cat([normed, of_cells], dim=-1)).sigmoid() * of_cells
        of_regions = self.region_gate(torch.cat([normed, of_regions], dim=-1)).sigmoid() * of_regions
        words = words + self.dropout((of_cells + of_regions) / math.sqrt(2))
        output: Tensor = words + self.feed_forward(words)
        return output


class Grit(ClozeJudge):
    """Words, grid cells and regions -> answers; ``features`` are :class:`GridsAndRegions`', or cells alone.

    ``width``, of everything, is an even multiple of ``heads``.
    """

    def __init__(
        self, cloze: Cloze, *, width: int = 256, heads: int = 8, layers: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__(cloze)
        self.regions = cloze.features.regions
        places, columns = cloze.features.shape
        self.columns = columns - (CODE if self.regions else 0)
        self.embedding = nn.Embedding(len(cloze.vocabulary), width, padding_idx=0)
        self.project_cells = nn.Sequential(nn.LayerNorm(self.columns), nn.Linear(self.columns, width))
        self.cell_positions = nn.Parameter(0.02 * torch.randn(places - self.regions, width))
        self.project_regions = nn.Sequential(nn.LayerNorm(self.columns), nn.Linear(self.columns, width))
        self.box_positions = nn.Linear(CODE, width)
        # Can always be attended to, as an image may have no regions.
        self.no_region = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.dropout = nn.Dropout(dropout)
        self.grid = nn.ModuleList([GridLayer(width, heads, dropout)])
        self.layers = nn.ModuleList(ParallelLayer(width, heads, dropout) for _ in range(layers))
        self.norm_cells, self.norm_words = nn.LayerNorm(width), nn.LayerNorm(width)
        self.output = OutputLayer(width, len(cloze.vocabulary))

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        features = batch["features"].float()
        cells = features[:, : features.shape[1] - self.regions, : self.columns]
        cells = self.project_cells(cells) + self.cell_positions
        for layer in self.grid:
            cells = layer(cells)
        cells, (regions, present) = self.norm_cells(cells), self._regions(features)
        embedded = self.embedding(batch["tokens"])
        places = positions(embedded.shape[1], embedded.shape[2], device=embedded.device)
        words = self.dropout(embedded + places.to(embedded.dtype))
        for layer in self.layers:
            words = layer(words, cells, regions, present)
        last = batch["lengths"] - 1
        read = self.norm_words(words[torch.arange(len(last), device=last.device), last])
        return self.answer(self.output(self.dropout(read)))

    def _regions(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1 + R, W], and which of them exist, [B, 1 + R]; ``no_region`` comes first."""
        nothing = self.no_region.expand(len(features), -1, -1)
        always = torch.ones(len(features), 1, dtype=torch.bool, device=features.device)
        if not self.regions:
            return nothing, always
        rows = features[:, -self.regions :]
        averages, code = rows[..., : self.columns], rows[..., self.columns :]
        regions = self.project_regions(averages) + self.box_positions(code)
        return torch.cat([nothing, regions], dim=1), torch.cat([always, code[..., -1] > 0], dim=1)


BLUEPRINTS = {
    "grit": Blueprint(
        "grit",
        "nguyen2022grit; liu2021swin; abdelrahman2024imagecaptioner2, section 4.2",
        network=partial(make_cloze_judge, Grit),
        recipe=Recipe(epochs=40, learning_rate=1e-4, batch_size=128, keep="best"),
        modalities=frozenset({"caption", "image"}),
        reads=PROMPTED,
        backbone=lambda materials: GridsAndRegions(make_backbone(materials, SWIN)),
        regions=True,
    )
}
