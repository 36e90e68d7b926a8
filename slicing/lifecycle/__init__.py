"""Everything an operator remembers: as bytes, changed while it runs, taken apart by keys."""
