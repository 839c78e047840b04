"""Export: write a run for other programs, and check that its outputs are equal there."""
