"""Annotations and functions for models, by subject; `poptorch.ops` exports them."""
