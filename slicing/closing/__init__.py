"""Complete windows: find them, combine their partials, make the output."""
