"""The state of an operator: written as bytes, changed for a new spec, split by key."""
