"""What an operator adds to a plain push: marks of keys, a limit of bytes, a warning of a wrong clock."""
