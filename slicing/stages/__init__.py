"""The stages of a push: read, collect, close, output. ``slicing.push`` runs them."""
