"""GRIT as a judge: reads the masked caption and the question, and attends to the whole picture and to things, apart.

Source: Nguyen et al., ECCV 2022 (GRIT), its caption generator: words that have attended to one another attend to grid
features and to region features separately (parallel cross-attention), and what either gives passes a gate of its own, a
sigmoid of the words and the attended features, before both are added. As a judge it is used like Show, Attend and Tell:
caption and template are fed as they are given, nothing is generated, the answer is read from the last word, and
cross-entropy on it is the only loss. It is trained for 40 epochs in batches of 128 with Adam, as ImageCaptioner2 trains
all its judges (Abdelrahman et al., AAAI 2024, section 5.2), under either protocol.

Kept: a Swin as the backbone (ImageNet's, or any of timm's), a grid feature network of self-attention, three layers of
parallel cross-attention with 8 heads, the division of the gated sum by the root of two, sinusoidal positions of words.

What the published GRIT has and this has not:

- the region detector: a Deformable DETR of 6 layers and 150 queries on four scales of the same Swin, pretrained on
  Visual Genome, or on four sets of boxes. Here regions are the things that the run's own detector found, and their
  features the backbone's last map averaged over each box, beside the box's place;
- training end to end: here the backbone is frozen and sees a picture once, without augmentation;
- pictures of up to 384 x 640 pixels in their own shape: here they are squeezed to a square;
- size: width 512, and three layers in the grid feature network, with a memory slot; here 256, one layer, and no memory;
- a captioner trained on COCO's captions, by cross-entropy and then for CIDEr (self-critical), and its beam search;
- normalisation after each part, with a warm-up: here it stands before each, which needs none; and words are added to
  the gated sum once, where there each cross-attention adds them before its gate.

Of ImageCaptioner2's training: the learning rate, 1e-4, is not published there and is ours; weights start as torch's
layers do, not by the initialisation that section 5.2 cites; the epoch of the least validation loss is kept.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from judge.judges import PROMPTED, Answering, Backbone, Batch, Blueprint, Features, Materials, Recipe
from judge.judges.backbones import SWIN, TimmBackbone, make_backbone
from judge.judges.cloze import ClozeReader, maker
from judge.judges.encoders import positions
from judge.judges.output import OutputLayer
from judge.masking.instances import MAX_BOXES
from judge.types import Words

CODE = 5
"""Columns after a position's features: the box, and 1; zeros for what has none."""


class GridsAndRegions(nn.Module):
    """A frozen backbone's last map, cell by cell, and then averaged over boxes: [B, cells + R, D + 5].

    Args:
        backbone: sees the whole picture, squeezed to a square.
        regions: R.
    """

    def __init__(self, backbone: TimmBackbone, *, regions: int = MAX_BOXES) -> None:
        super().__init__()
        self.backbone, self.regions = backbone, regions
        self.prepare = backbone.prepare
        self.key = f"{backbone.key}, averaged over {regions} boxes"

    def forward(self, pictures: Tensor, boxes: Tensor | None = None) -> Tensor:
        """[B, 3, S, S] and [B, R, 4] -> [B, cells + R, D + 5]; no boxes, no regions."""
        if boxes is None:
            boxes = pictures.new_zeros(len(pictures), self.regions, 4)
        return self.with_regions(self.backbone(pictures), boxes)

    def with_regions(self, cells: Tensor, boxes: Tensor) -> Tensor:
        """The map's cells, [B, cells, D], and behind them its means over boxes, [B, R, 4] -> [B, cells + R, D + 5]."""
        there = (boxes[..., 2:] > boxes[..., :2]).all(dim=-1, keepdim=True).to(cells)
        regions = torch.cat([covered(boxes, math.isqrt(cells.shape[1])).to(cells) @ cells, boxes * there, there], -1)
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
        self.ask, self.tell = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(self, asking: Tensor, attended: Tensor, *, there: Tensor | None = None, causal: bool = False) -> Tensor:
        """``there``: [B, S] bool, what may be attended to; ``causal``: nothing that comes later."""
        queries = self.ask(asking).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        keys, values = self.tell(attended).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, dim=1)
        mask = None if there is None else there[:, None, None]
        dropout = self.dropout if self.training else 0.0
        found = scaled_dot_product_attention(queries, keys, values, mask, dropout, is_causal=causal)
        output: Tensor = self.output(found.transpose(1, 2).flatten(-2))
        return output


class _FeedForward(nn.Sequential):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.append(nn.Dropout(dropout))


class GridLayer(nn.Module):
    """Cells that attend to one another."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.dropout, self.feed = nn.Dropout(dropout), _FeedForward(width, dropout)

    def forward(self, cells: Tensor) -> Tensor:
        """[B, P, W] -> [B, P, W]."""
        normed = self.norm(cells)
        cells = cells + self.dropout(self.attention(normed, normed))
        fed: Tensor = cells + self.feed(cells)
        return fed


class ParallelLayer(nn.Module):
    """Words that attend to earlier words, then to cells and to things, each through a gate."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.among, self.to_cells, self.to_things = (Attention(width, heads, dropout) for _ in range(3))
        self.gate_of_cells, self.gate_of_things = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.dropout, self.feed = nn.Dropout(dropout), _FeedForward(width, dropout)

    def forward(self, words: Tensor, cells: Tensor, things: Tensor, there: Tensor) -> Tensor:
        """[B, T, W], [B, P, W], [B, R, W] and whether each thing is there, [B, R] -> [B, T, W]."""
        normed = self.before(words)
        words = words + self.dropout(self.among(normed, normed, causal=True))
        asking = self.between(words)
        of_cells, of_things = self.to_cells(asking, cells), self.to_things(asking, things, there=there)
        of_cells = self.gate_of_cells(torch.cat([asking, of_cells], dim=-1)).sigmoid() * of_cells
        of_things = self.gate_of_things(torch.cat([asking, of_things], dim=-1)).sigmoid() * of_things
        words = words + self.dropout((of_cells + of_things) / math.sqrt(2))
        fed: Tensor = words + self.feed(words)
        return fed


class Grit(ClozeReader):
    """Words, cells and things -> answers; of ``features`` the last positions are things (:class:`GridsAndRegions`).

    Args:
        features: pictures as the backbone sees them; where they hold no regions, all positions are cells.
        width: of everything; a multiple of ``heads``, and even.
        layers, grid_layers: of words, of cells.
    """

    def __init__(  # noqa: PLR0913 - widths
        self,
        vocabulary: dict[str, int],
        question: Words,
        classes: int,
        features: Features,
        *,
        width: int = 256,
        heads: int = 8,
        layers: int = 3,
        grid_layers: int = 1,
        dropout: float = 0.1,
        answering: Answering = "restricted",
    ) -> None:
        super().__init__(vocabulary, question, classes, features, answering)
        self.regions: int = getattr(features, "regions", 0)
        places, columns = features.shape
        self.columns = columns - (CODE if self.regions else 0)
        self.embedding = nn.Embedding(len(vocabulary), width, padding_idx=0)
        self.sight = nn.Sequential(nn.LayerNorm(self.columns), nn.Linear(self.columns, width))
        self.cell_places = nn.Parameter(0.02 * torch.randn(places - self.regions, width))
        self.thing_sight = nn.Sequential(nn.LayerNorm(self.columns), nn.Linear(self.columns, width))
        self.thing_places = nn.Linear(CODE, width)
        # Always there to be attended to: a picture may hold no thing.
        self.nothing = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.dropout = nn.Dropout(dropout)
        self.grid = nn.ModuleList(GridLayer(width, heads, dropout) for _ in range(grid_layers))
        self.layers = nn.ModuleList(ParallelLayer(width, heads, dropout) for _ in range(layers))
        self.norm_cells, self.norm_words = nn.LayerNorm(width), nn.LayerNorm(width)
        self.output = OutputLayer(width, self.outputs)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, A]."""
        features = batch["features"].float()
        cells, (things, there) = self._cells(features), self._things(features)
        embedded = self.embedding(batch["tokens"])
        places = positions(embedded.shape[1], embedded.shape[2], device=embedded.device)
        words = self.dropout(embedded + places.to(embedded.dtype))
        for layer in self.layers:
            words = layer(words, cells, things, there)
        last = batch["lengths"] - 1
        read = self.norm_words(words[torch.arange(len(last), device=last.device), last])
        return self.answers(self.output(self.dropout(read)))

    def _cells(self, features: Tensor) -> Tensor:
        """[B, P - R, W]."""
        cells = self.sight(features[:, : features.shape[1] - self.regions, : self.columns]) + self.cell_places
        for layer in self.grid:
            cells = layer(cells)
        normed: Tensor = self.norm_cells(cells)
        return normed

    def _things(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 1 + R, W], and whether each is there, [B, 1 + R]; nothing comes first, and is always there."""
        nothing = self.nothing.expand(len(features), -1, -1)
        always = torch.ones(len(features), 1, dtype=torch.bool, device=features.device)
        if not self.regions:
            return nothing, always
        rows = features[:, -self.regions :]
        regions, code = rows[..., : self.columns], rows[..., self.columns :]
        things = self.thing_sight(regions) + self.thing_places(code)
        return torch.cat([nothing, things], dim=1), torch.cat([always, code[..., -1] > 0], dim=1)


def _backbone(materials: Materials) -> Backbone:
    return GridsAndRegions(make_backbone(materials, SWIN))


BLUEPRINTS = {
    "grit": Blueprint(
        "grit",
        "nguyen2022grit; liu2021swin; abdelrahman2024imagecaptioner2, section 4.2",
        network=maker(Grit),
        recipe=Recipe(epochs=40, learning_rate=1e-4, batch_size=128, keep="best"),
        modalities=frozenset({"caption", "image"}),
        reads=PROMPTED,
        backbone=_backbone,
        regions=True,
    )
}
