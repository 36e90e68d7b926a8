"""What the machine provides: threads, memory, files."""
