"""Training: `fit` and what it gives back."""
