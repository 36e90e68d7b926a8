"""Window types that rows decide."""
