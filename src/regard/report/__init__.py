"""Pages of runs: curves, samples, data and machine, live or saved; scores; comparisons."""
