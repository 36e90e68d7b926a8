"""Rows kept one by one, for windows of rows: counts, punctuations, frames and the like."""
