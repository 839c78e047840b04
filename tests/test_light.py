"""Exports without torch: decoding over arrays says what decoding over tensors says, and nothing on the way needs torch.

Whole exports of every kind are held against their runs in tests/test_export.py.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import torch

from doc_commands import ROOT
from export_runs import untrained, without_shape_checks
from regard import loading
from regard.errors import CallError, RegardError
from regard.exporters.export import export
from regard.generation import beam as beam_of_tensors
from regard.generation import ctc, sampling
from regard.generation import sampling as continuing
from regard.generation.engine import Constraints
from regard.generation.sampling import greedy
from regard.light.continuation import generate
from regard.light.search import LightPrefixes, LightRules, Uniform, beam, draw, token_by_token
from regard.special_tokens import END

WORDS = 11
ROWS = 3


class Tensors:
    """A model whose next word depends on the sentence and the last two words."""

    def __init__(self, seed: int) -> None:
        table = np.random.default_rng(seed).normal(0, 2, (ROWS, WORDS, WORDS, WORDS)).astype(np.float32)
        self.table = table

    def step(self, tokens, state):
        before, owner = state.last, state.owner
        found = torch.from_numpy(self.table[owner.numpy(), before.numpy(), tokens.numpy()])
        return found, TensorState(tokens, owner)

    def logits(self, features):
        return features.clone()


class TensorState(SimpleNamespace):
    def __init__(self, last, owner) -> None:
        super().__init__(last=last, owner=owner, rows=len(owner), device=torch.device("cpu"), joins=False)

    def join(self, other):
        raise TypeError

    def select(self, rows):
        return TensorState(self.last[rows], self.owner[rows])


class ArrayState(SimpleNamespace):
    def __init__(self, last, owner) -> None:
        super().__init__(last=last, owner=owner, rows=len(owner))

    def select(self, rows):
        return ArrayState(self.last[rows], self.owner[rows])


class ArraySteps(Tensors):
    def step(self, tokens, state):
        return self.table[state.owner, state.last, tokens].copy(), ArrayState(tokens, state.owner)


def both(seed):
    last, owner = np.full(ROWS, 2), np.arange(ROWS)
    tensors = TensorState(torch.from_numpy(last), torch.from_numpy(owner))
    return (Tensors(seed), tensors), (ArraySteps(seed), ArrayState(last, owner))


@pytest.mark.parametrize("seed", range(12))
def test_searches_find_the_same(seed):
    prefix = [5, 4] if seed % 2 else []
    constraints = Constraints(7, min_length=2, prefix=prefix, forbidden=(0, 1, 2))
    rules = LightRules(7, 2, prefix, (0, 1, 2))
    for size, n_best, alpha in ((1, 1, 1.0), (4, 3, 0.6), (5, 1, 0.0)):
        (model, state), (steps, start) = both(seed)
        penalty = beam_of_tensors.LengthPenalty(alpha)
        ours = beam_of_tensors.beam(model, state, constraints, size=size, n_best=n_best, penalty=penalty)
        theirs = beam(steps, start, rules, size=size, n_best=n_best, alpha=alpha)
        assert [[one.tokens for one in some] for some in ours] == [[one.tokens for one in some] for some in theirs]
        flat = [[one.score for some in found for one in some] for found in (ours, theirs)]
        np.testing.assert_allclose(*flat, atol=1e-5)
    (model, state), (steps, start) = both(seed)
    ours, theirs = [one for (one,) in greedy(model, state, constraints)], token_by_token(steps, start, rules)
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    np.testing.assert_allclose([one.score for one in ours], [one.score for one in theirs], atol=1e-5)


def test_beginnings_are_as_probable_by_ctc():
    """Beams of three recordings of other lengths, one after the other, with repeated tokens among them."""
    scores = torch.randn(ROWS, 9, WORDS, generator=torch.Generator().manual_seed(2)).log_softmax(-1)
    ours = ctc.Prefixes.start(scores, torch.tensor([9, 4, 7]))
    theirs = LightPrefixes.start(ours.scores.numpy())
    for tokens in ([5, 6, 4], [5, 4, 4, 7, 8, 6], [5, 5, 9, 7, 4, 6]):
        np.testing.assert_allclose(theirs.gains(), ours.gains().numpy(), rtol=1e-4, atol=1e-4)
        rows = np.arange(ours.psi.shape[0]).repeat(len(tokens) // ours.psi.shape[0])
        ours, theirs = ours.select(torch.from_numpy(rows)), theirs.select(rows)
        ours, theirs = ours.step(torch.tensor(tokens)), theirs.step(np.array(tokens))
        np.testing.assert_allclose(theirs.psi, ours.psi.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (4, 1.0), (0, 0.7), (5, 0.6)])
def test_what_is_drawn_is_what_torch_draws(top_k, top_p):
    for seed in (0, 7, 2**40 + 3):
        numbers = torch.rand(40, generator=torch.Generator().manual_seed(seed))
        assert np.array_equal(Uniform(seed)(40), numbers.numpy())
        logits = np.random.default_rng(seed).normal(0, 3, (40, WORDS)).astype(np.float32)
        ours = sampling.draw(torch.from_numpy(logits), numbers, top_k=top_k or None, top_p=top_p)
        assert draw(logits, numbers.numpy(), top_k=top_k, top_p=top_p).tolist() == ours.tolist()


class Language:
    """A language model, of both kinds: what comes next depends on the last two tokens and on how many were read."""

    def __init__(self) -> None:
        self.table = np.random.default_rng(1).normal(0, 2, (WORDS, WORDS)).astype(np.float32)

    def rows(self, texts):
        return np.stack([self.table[text[-1]] + 0.1 * len(text) * self.table[text[0]] for text in texts])

    def start(self, rows, *, places=0):
        return {"seen": np.zeros((rows, 0), np.int64)}

    def read(self, tokens, past):
        if isinstance(tokens, torch.Tensor):
            seen = tokens if isinstance(past, dict) else torch.cat([past.seen, tokens], dim=1)
            return torch.from_numpy(self.rows(seen.tolist())), Past(seen)
        seen = np.concatenate([past["seen"], np.asarray(tokens)], axis=1)
        return self.rows(seen.tolist())[:, None], {"seen": seen}

    def step(self, tokens, state):
        return self.read(tokens[:, None], state)

    def logits(self, features):
        return features


class Past(SimpleNamespace):
    def __init__(self, seen) -> None:
        super().__init__(seen=seen, length=seen.shape[1])

    def select(self, rows):
        return Past(self.seen[rows])


@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"temperature": 0.9, "seed": 4}, {"repetition_penalty": 1.5}])
def test_texts_go_on_alike(how):
    sampling, prompts = continuing.SamplingState(**how), [[5, 6, 7, 8], [9, 4], [9, 4], [6, 6, 6]]
    options = {"context": 6, "max_length": 9, "end": END, "forbidden": [0, 1]}
    ours = list(continuing.generate(Language(), prompts, sampling, device=torch.device("cpu"), **options))
    theirs = list(generate(Language(), prompts, sampling, ended=lambda new: False, **options))
    assert [one[:2] for one in ours] == [one[:2] for one in theirs]
    np.testing.assert_allclose([one[2] for one in ours], [one[2] for one in theirs], atol=1e-5)


# ------------------------------------------------------------------------------------------------- without torch at all
BLOCKED = """
import json, sys
for name in ("torch", "matplotlib", "sacrebleu", "rapidfuzz", "safetensors", "zstandard", "scipy", "pandas", "pyarrow"):
    sys.modules[name] = None
"""
ASKED = """
import regard
from regard.cli import cli
folder, text = sys.argv[1:]
run = regard.load(folder)
record = run.look(text)
record.save("seen.html")
cli.main(["predict", folder, text, "--json", "-o", "said.json"], standalone_mode=False)
cli.main(["look", folder, text], standalone_mode=False)
json.dump({"text": run.predict(text).text, "weights": record.matrix().weights.tolist()}, open("found.json", "w"))
"""
SERVED = """
from regard.cli import cli
cli.main(["serve", sys.argv[1], "--port", "0"])
"""
MISSING = """
from regard.commands.options import explain_error
import regard
try:
    regard.load(sys.argv[1])
except Exception as error:
    print(error)
try:
    regard.train
except ImportError as error:
    print(error)
from regard.cli import cli
try:
    cli.main(["evaluate", sys.argv[1]], standalone_mode=False)
except Exception as error:
    print(*explain_error(error))
"""


def blocked(code: str, *words: object, cwd: Path) -> str:
    """The code, where torch cannot be imported."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *map(str, words)], cwd=cwd, capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A run, and its export."""
    pytest.importorskip("onnxscript", reason="pip install 'regard[export]'")
    folder = tmp_path_factory.mktemp("light")
    run, lines = untrained("recurrent", folder / "run"), folder / "lines.txt"
    lines.write_text("The queen is here\n")
    with without_shape_checks():
        export(run, to="onnx", out=folder / "out", inputs=lines)
    return run, folder / "out"


@pytest.mark.slow
def test_an_export_runs_where_there_is_no_torch(translator, tmp_path):
    run, folder = translator
    text = "We eat bread with Pedro"
    shown = blocked(ASKED, folder, text, cwd=tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    said = run.predict(text).text
    assert found["text"] == json.loads((tmp_path / "said.json").read_text())[0]["text"] == said
    np.testing.assert_allclose(found["weights"], run.look(text).matrix().weights, atol=1e-5)
    assert said in shown
    assert text in (tmp_path / "seen.html").read_text()


@pytest.mark.slow
def test_an_export_is_served_where_there_is_no_torch(translator):
    """A process of its own, asked over HTTP."""
    run, folder = translator
    text = "We eat bread with Pedro"
    command = [sys.executable, "-c", BLOCKED + SERVED, str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as it:
        assert it.stderr is not None
        try:
            address = it.stderr.readline().split()[1]
            with httpx.Client(base_url=address, timeout=20) as client:
                page = client.get("/")
                served = client.post("/api/predict", json={"inputs": [text]}).json()["predictions"][0]["text"]
                looked = client.post("/api/look", json={"text": text}).json()
                outline = client.post("/api/page", json={"text": text, "part": "outline"})
                listed = client.get("/api/models").json()["models"][0]
                refused = client.post("/api/weight", json={"text": text, "row": 0, "column": 0})
                examples = client.get("/api/examples").json()["examples"]
        finally:
            it.terminate()
    assert served == run.predict(text).text
    assert (page.status_code, outline.status_code, len(looked["attentions"])) == (200, 200, 1)
    assert (listed["parameters"], listed["methods"]) == (run.parameters, ["raw"])
    assert refused.status_code == 422
    assert "PyTorch" in refused.json()["error"]
    assert [one["text"] for one in examples] == ["The queen is here"]


def test_the_image_imports_what_it_runs(tmp_path):
    """The step of the Dockerfile that compiles modules; `benchmarks/light.py` runs all of its steps."""
    (line,) = re.findall(r'python -c "(import [^"]+)"', (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    blocked(line, cwd=tmp_path)


def test_what_needs_torch_says_how_to_get_it(tmp_path):
    told = blocked(MISSING, tmp_path / "run", cwd=tmp_path).splitlines()
    assert len(told) == 3
    assert all("PyTorch" in line and "pip install 'regard[train]'" in line for line in told)
    assert "--to onnx" in told[0]
    assert told[2].endswith(" 2")


@pytest.mark.slow
def test_what_an_export_cannot_do_is_said(translator, tmp_path):
    _, folder = translator
    light = loading.load(folder)
    for call, words in (
        (lambda: light.look("The queen", method="rollout"), "method='rollout'"),
        (lambda: light.look("The queen", evidence=True), "evidence"),
        (lambda: light.look("", beam=1), "no token"),
        (lambda: light.predict("The queen", without=["cross.0.0"]), "cross.0.0"),
        (lambda: light.predict("The queen", replace_unknow=True), "replace_unknown"),
        (lambda: light.predict("The queen", beem=2), "beem"),
        (lambda: light.predict(3), "a text, not int"),
        (lambda: light.explain("The queen", "lens"), "PyTorch"),
        (lambda: light.count_workers(2, 100), "workers=2"),
        (lambda: loading.load(folder, quantize="int8"), "--dtype int8"),
    ):
        with pytest.raises(CallError, match=words):
            call()
    assert light.predict(["", "The queen"])[0].text == ""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "graphs.json").write_text("{")
    with pytest.raises(CallError, match=r"has no run\.json"):
        loading.load(broken)
    (broken / "run.json").write_text("{}")
    with pytest.raises(RegardError, match="damaged"):
        loading.load(broken)
