"""Window types, and the arithmetic of their edges."""
