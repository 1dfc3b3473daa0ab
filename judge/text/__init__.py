"""Captions as words: cut, looked up, masked, aligned."""
