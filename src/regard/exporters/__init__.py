"""The way out: a run in the form that other programs read, with the proof that it says the same there."""
