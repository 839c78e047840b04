"""Pages of runs: curves, samples, data and machine, while they train and saved; scores; comparisons."""
