"""What is asked, as frozen data, and resolved against the types of columns."""
