"""Training runs: what is requested, training in a folder, and search with a trained run."""
