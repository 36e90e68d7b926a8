"""Windows on their way out: which are due, their partials, corrections, empty ones, as Arrow."""
