"""The libraries that `benchmarks/translate.py` compares regard with; what they are is in `benchmarks/peers.txt`."""
