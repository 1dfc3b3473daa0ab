"""What maps of pictures cost: 100 drawn scenes, by Show, Attend and Tell and by a tiny BLIP, both methods.

    python scripts/bench_attribution.py
    python scripts/bench_attribution.py --scenes 20 --size 96

Weights are random: they decide no time. SAT sees through a ResNet-18 at the pictures' own size; BLIP has two layers and
pictures of 64 pixels. Seconds are of all scenes, reading included. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from bench_feeding import SMALL
from bench_judge import Drawn, clock, draw, machine, save_blip, threads

from judge.attribution.checkpoints import AnswerViews
from judge.attribution.methods import METHODS, SAMPLES
from judge.attribution.pictures import Explaining
from judge.attribution.views import BackboneViews, Views
from judge.judges import Materials, find_judge
from judge.training.feature_store import FeatureStore

CPU = torch.device("cpu")
