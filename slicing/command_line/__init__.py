"""The command line, and what it alone does: the demonstration, kernels compiled ahead."""
