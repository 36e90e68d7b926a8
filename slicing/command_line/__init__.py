"""The command line and what belongs to it: the demonstration, and compiling kernels ahead."""
