"""What is asked of a window: each aggregate is what it keeps in a slice and how it reads its answer out."""
