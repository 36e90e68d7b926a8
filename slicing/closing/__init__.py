"""Windows that are complete, on their way out."""
