"""Internal views of graphs."""
