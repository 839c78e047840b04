"""The libraries that regard is compared with, in speed (`benchmarks/translate.py`) and in what they explain
(`benchmarks/agreement.py`); what they are is in `benchmarks/peers.txt`."""
