"""Captions as words: tokenised, looked up in lexicons, masked, aligned."""
