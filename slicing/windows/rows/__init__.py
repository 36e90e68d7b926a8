"""Data-driven window types: windows that rows decide."""
