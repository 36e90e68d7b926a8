"""What the machine gives: threads, memory, files."""
