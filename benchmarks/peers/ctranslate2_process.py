"""CTranslate2 in a process of its own: it reads CT2_FORCE_CPU_ISA once, and takes AVX-512 only if that asks for it."""

import multiprocessing
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from peers.messages import peer

Sentences = list[list[int]]
LONGEST = 128  # tokens of an output, the end symbol not counted


class TranslatorProcess:
    """A Translator with this instruction set (empty: the one that CTranslate2 takes by itself) and use of the cores."""

    def __init__(self, folder: Path, isa: str, compute_type: str, inter_threads: int, intra_threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        how = {"compute_type": compute_type, "inter_threads": inter_threads, "intra_threads": intra_threads}
        self._process = context.Process(target=_serve, args=(theirs, str(folder), isa, how), daemon=True)
        self._process.start()
        theirs.close()
        self.processor_seconds = 0.0

    def __call__(self, sources: Sentences, beam: int, batch: int) -> Sentences:
        self._connection.send((sources, beam, batch))
        found, self.processor_seconds = self._connection.recv()
        return found

    def __enter__(self) -> "TranslatorProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.join()


def _serve(connection: Any, folder: str, isa: str, how: dict[str, Any]) -> None:
    """Translate each list that arrives, until the other side closes."""
    if isa:
        os.environ["CT2_FORCE_CPU_ISA"] = isa
    translator = peer("ctranslate2").Translator(folder, **how)
    while True:
        try:
            sources, beam, batch = connection.recv()
        except EOFError:
            return
        found = translator.translate_batch(
            [[str(token) for token in ids] for ids in sources],
            beam_size=beam, max_batch_size=batch, max_decoding_length=LONGEST + 1, length_penalty=1.0,
        )  # fmt: skip
        tokens = [[int(token) for token in result.hypotheses[0][:LONGEST]] for result in found]
        connection.send((tokens, time.process_time()))
