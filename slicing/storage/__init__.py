"""What is kept of slices."""
