"""Benchmarks: ``benchmarks`` is the asv suite, ``peers`` runs the same work through other engines."""
