"""Limits of the service, and the accepted host names. Needs no web extra."""

from dataclasses import dataclass

#: Host names for a service on this machine only. Any other name in a Host header may be a web site that points its
#: own name here (DNS rebinding) to read from a visitor's machine.
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True)
class Limits:
    max_length: int = 1000  # characters of an input, a prefix or a forced output
    max_inputs: int = 64  # inputs of a request
    max_batch: int = 64  # inputs decoded in one call
    max_work: int = 1_000_000  # vectors that a model processes for one request, over all steps and passes
    max_body: int = 1 << 20  # bytes of a request
    max_upload: int = 16 << 20  # bytes of a picture or a recording
    max_uploads: int = 4  # uploads that may arrive at the same time
    max_held: int = 64 << 20  # bytes of requests that may arrive at the same time
    max_connections: int = 512  # open at the same time
    queue: int = 256  # requests that may wait for a model
    timeout: float = 30.0  # seconds until a request that has no answer gets 504
    idle_timeout: float = 10.0  # seconds that a connection may wait with no request, a part of one, or an unread answer
    api_key: str | None = None  # required on /api, /v1 and /metrics
    hosts: frozenset[str] | None = LOOPBACK  # accepted Host names; None: any
