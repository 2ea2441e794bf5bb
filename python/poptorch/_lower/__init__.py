"""From recorded operations to graphs of popxl."""
