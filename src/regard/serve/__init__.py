"""The service: `regard serve RUN [RUN ...]` answers over HTTP what `run.predict` and `run.look` answer in Python."""
