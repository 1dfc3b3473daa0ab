"""Worlds whose bias amplification is known, to test metrics and judges against the truth.

``world``: scenes as data, simulated captioners, closed forms. ``grammar``: the scenes put into words and files.
"""
