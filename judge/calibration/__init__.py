"""Worlds whose bias amplification is known, to test metrics and judges against the truth."""
