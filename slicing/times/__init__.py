"""Instants and spans as ticks of a time column; local days and months."""
