"""Which words of a caption, and which pixels of a picture, a trained judge's answer comes from."""

from __future__ import annotations
