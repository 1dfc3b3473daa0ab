"""Hiding the protected attribute: words here, people's pixels beside them."""
