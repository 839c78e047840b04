"""Runs what pages of the docs print, with the regard of an installed wheel: `python -P doc_runner.py SITE TESTS`.

A process of its own, so that `regard` is the wheel's, and one for all pages, so that torch is loaded once. Asked on
standard input, a line of JSON a page, it answers in the same way. Budgets are smaller than printed: `BUDGET` steps, a
few examples of each embedded corpus, short outputs, and few inputs that prove an export.
"""

import json
import os
import shlex
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

BUDGET = 2  # steps of each training
CHECKED = 3  # inputs that prove an export
PRINTED = "localhost:8000"


class Service:
    """`regard serve`, in a thread and at a port that is free, until the next one or the end of its page."""

    def __init__(self, cli: Any, words: list[str]) -> None:
        from regard.serve.server import Server

        self.started: Any = None
        self.problem: BaseException | None = None
        begin = Server.run

        def run(server: Any, sockets: Any = None) -> None:
            self.started, self.port = server, sockets[0].getsockname()[1]
            begin(server, sockets)

        Server.run = run
        self.thread = threading.Thread(target=self._serve, args=(cli, [*words, "--port", "0"]))
        self.thread.start()
        while self.thread.is_alive() and not (self.started and self.started.started):
            time.sleep(0.01)
        Server.run = begin
        if self.problem:
            raise self.problem

    def _serve(self, cli: Any, words: list[str]) -> None:
        try:
            cli.main(words, standalone_mode=False)
        except BaseException as problem:
            self.problem = problem

    def stop(self) -> None:
        self.started.should_exit = True
        self.thread.join()


class Page:
    """The session of somebody who types what a page prints, from its top to its end."""

    def __init__(self, short: Any) -> None:
        self.names: dict[str, Any] = {}
        self.service: Service | None = None
        self.short = short

    def run(self, steps: list[dict[str, str]]) -> None:
        try:
            for kind, some in groupby(steps, key=lambda step: step["kind"]):
                texts = [step["text"] for step in some]
                for text in ["\n".join(texts)] if kind == "shell" else texts:
                    try:
                        getattr(self, kind)(text)
                    except BaseException as problem:
                        raise RuntimeError(text) from problem
        finally:
            self.stop()

    def stop(self) -> None:
        if self.service:
            self.service.stop()
        self.service = None

    def regard(self, text: str) -> None:
        from regard.cli import cli

        _, verb, *words = shlex.split(text)
        if verb == "serve":
            self.stop()
            self.service = Service(cli, [verb, *words])
        else:
            budget = ["--max-steps", str(BUDGET)] * (verb in ("train", "compare"))
            if budget and self.short(words[0]):
                budget += [f"decoding.max_length={self.short(words[0])['decoding']['max_length']}"]
            cli.main([verb, *words, *budget], standalone_mode=False)

    def shell(self, text: str) -> None:
        port = self.service.port if self.service else 0
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.replace(PRINTED, f"localhost:{port}").replace("curl ", "curl -f ")],
            check=True,
        )

    def python(self, text: str) -> None:
        exec(compile(text, "a block of Python", "exec"), self.names)


@contextmanager
def budget() -> Iterator[Any]:
    """Yields `short`, what is short of a recipe's output."""
    import recipe_runs
    import regard
    from regard.exporters import base

    whole = regard.train

    def train(recipe: Any, **changes: Any) -> Any:
        training = {**changes.pop("training", {}), "max_steps": BUDGET}
        return whole(recipe, **recipe_runs.short(recipe), **{**changes, "max_steps": None}, training=training)

    base.MOST = CHECKED
    with recipe_runs.small_corpora():
        regard.train = train
        yield recipe_runs.short
        regard.train = whole


def main(site: str, tests: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    said = os.open(Path.cwd() / "said.txt", os.O_CREAT | os.O_RDWR | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    import regard

    assert Path(regard.__file__).is_relative_to(site), f"{regard.__file__} is not of the wheel in {site}"
    sys.path.append(tests)
    with budget() as short:
        for line in sys.stdin:
            asked = json.loads(line)
            os.chdir(asked["folder"])
            assert os.listdir() == ["examples"]
            os.truncate(said, 0)
            problem = ""
            try:
                Page(short).run(asked["steps"])
            except BaseException:
                problem = traceback.format_exc() + Path(f"/dev/fd/{said}").read_text(errors="replace")[-2000:]
            print(json.dumps(problem), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
