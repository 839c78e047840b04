"""The service: `regard serve RUN [RUN ...]` offers `run.predict` and `run.look` over HTTP."""
