"""Rows kept one by one, for windows that rows decide."""
