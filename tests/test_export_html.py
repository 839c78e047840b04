"""A model in one HTML file: the runtime for browsers computes what Python computes, in a real Chromium, offline.

Needs Chromium, and skips where there is none.
"""

import base64
import json
import os
import re
import shutil
import subprocess
from html import unescape
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tokenizers import BertWordPieceTokenizer

from export_runs import untrained
from recipe_runs import small_corpora
from regard import catalog, config
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.exporters.base import RefusalError
from regard.exporters.html.format import RUNTIME, expected_of, runtime
from regard.exporters.html.payload import KNOWN, described_input, described_output, module_tree, payload, tokenizer
from regard.job import make_job
from regard.look import html as look
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.tasks.result import LookOptions
from translate_example import translator

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or CHROMIUM=path"
)
TEXT = "two cats see the red dog"
SIZES = {"width": 16, "embedding": 8, "dropout": 0.0}
BLOCKS = {"width": 16, "heads": 2, "feed_forward": 24, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}
TRANSLATORS = {
    **{f"recurrent {score}": RecurrentSettings(**SIZES, score=score) for score in catalog.SCORES},
    "lstm, current, fed, gated": RecurrentSettings(
        **SIZES, cell="lstm", query="current", input_feeding=True, gate=True, encoder_layers=2, decoder_layers=2
    ),
    "one vector, once": RecurrentSettings(**SIZES, context="initial", bidirectional=False),
    "one vector, always": RecurrentSettings(**SIZES, context="constant"),
    "norms first": TransformerSettings(**BLOCKS),
    "norms last, learned, beside": TransformerSettings(
        **BLOCKS, norm_first=False, positions="learned", combine="concat", activation="gelu"
    ),
    "rotary, grouped, gated": TransformerSettings(
        **BLOCKS, positions="rotary", kv_heads=1, norm="rms", activation="swiglu", tied="none", output_bias=True
    ),
    "relative": TransformerSettings(**BLOCKS, positions="relative"),
    "alibi, additive": TransformerSettings(**BLOCKS, positions="alibi", score="additive", activation="swish"),
}


class Untrained(NamedTuple):
    """As much of a run as a page needs."""

    job: Any
    model: Any
    recipe: Any


TOLD = """
const plain = (found) => found.attentions.map((table) => ({ ...table, weights: [...table.weights] }));
function told(page, found, cell) {
  try {
    return page.weight(found, {}, cell);
  } catch (error) {
    return { error: error.message };
  }
}
"""


def in_browser(tree: Any, start: str, tmp_path) -> Any:
    """What a page with the runtime writes into its only <pre>."""
    data = 'JSON.parse(document.getElementById("regard-data").textContent)'
    begin = f"{TOLD}const tree = {data};\nconst said = {start};\n"
    write = 'document.body.append(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(said) }));'
    page = tmp_path / "page.html"
    page.write_text(look.document_page(tree, "test", style="", script=runtime() + begin + write), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += [f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search("<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-500:]
    return json.loads(unescape(found[1]))


@needs_chromium
def test_the_runtime_computes_what_python_computes(tmp_path):
    """Every score, every context, both cells, both places of norms: outputs, probabilities and weights."""
    tree, looks = [], []
    for name, settings in TRANSLATORS.items():
        job = translator(settings, beam=3, max_length=8)
        with torch.no_grad():
            for weights in job.model.parameters():  # untrained models say the same of everything
                weights.mul_(1.5)
        model = payload(Untrained(job, job.model, job.recipe), "float32")
        told = job.output.tell(job.model, TEXT, LookOptions())[0]
        seen = [] if settings.kind == "recurrent" and settings.context != "attention" else job.look(TEXT).attentions
        cells = cells_of(seen)
        tree.append({"model": model, "cells": cells})
        ours = [weight_of(lambda **cell: job.weight(TEXT, LookOptions(), **cell), cell) for cell in cells]  # noqa: B023
        looks.append((name, told.text, job.predict([TEXT])[0].log_probability, seen, ours))
    answers = in_browser(
        tree,
        f"""tree.map(({{ model, cells }}) => {{
  const page = new Exported(model), found = page.answer({json.dumps(TEXT)});
  return {{ ...found, attentions: plain(found), weights: cells.map((cell) => told(page, found, cell)) }};
}})""",
        tmp_path,
    )
    for (name, text, log_probability, seen, ours), answer in zip(looks, answers, strict=True):
        assert answer["output"] == text, name
        assert sum(answer["scores"]) == pytest.approx(log_probability, rel=1e-4), name
        same_attentions(seen, answer["attentions"], name)
        assert len(answer["next_tokens"]) == len(answer["scores"]), name
        same_weights(ours, answer["weights"], name)


PAGES = ["captioner", "recurrent classifier", "bert classifier", "vit", "llama", "gpt2"]


@needs_chromium
def test_every_kind_of_page_computes_what_python_computes(tmp_path):
    """Captioners, classifiers of texts and pictures, language models: one browser answers for all of them."""
    tree, runs, chances = [], [], []
    for name in PAGES:
        run = untrained(name, tmp_path / name)
        with small_corpora():
            one = run.examples(1)[0].input
        if name == "recurrent classifier":  # in windows
            one = " ".join([one] * 40)
            assert len(list(run.job.input.windows(one))) > 1
        said, asked = expected_of(run, described_output(run)["kind"], one)
        chances.append(getattr(run.predict(one), "probabilities", {}))
        seen = run.look(one).attentions
        cells = cells_of(seen)
        tree.append({"model": payload(run, "float32"), "cells": cells, **asked})
        ours = [weight_of(lambda **cell: run.weight(one, **cell), cell) for cell in cells]  # noqa: B023
        runs.append((name, said, seen, ours))
    answers = in_browser(
        tree,
        """tree.map(({ model, cells, text, pixels, ids, logits, options }) => {
  const numbers = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const page = new Exported(model), given = pixels ? { pixels: numbers(pixels) } : text;
  const found = page.answer(given, options);
  const weights = cells.map((cell) => told(page, found, cell));
  const { output, said } = found;
  return { output, said, ...page.difference(given, ids, numbers(logits)), attentions: plain(found), weights };
})""",
        tmp_path,
    )
    for (name, said, seen, ours), answer, chance in zip(runs, answers, chances, strict=True):
        assert answer["output"] == said, name
        if chance:
            assert dict(zip(answer["said"]["names"], answer["said"]["values"], strict=True)) == pytest.approx(
                chance, abs=1e-5
            )
        assert answer["difference"] < 1e-4, (name, answer["place"])
        same_attentions(seen, answer["attentions"], name)
        same_weights(ours, answer["weights"], name)


def cells_of(attentions) -> list[dict[str, Any]]:
    """A cell of each table that every query may look at, of its last head."""
    return [
        {"kind": one.kind, "layer": one.layer, "head": len(one.weights) - 1, "row": min(1, one.weights.shape[1] - 1),
         "column": 0} for one in attentions
    ]  # fmt: skip


def weight_of(ask, cell) -> dict[str, Any] | None:
    """None: a mean of many rows has no score."""
    try:
        return ask(**cell).as_dict()
    except CallError:
        return None


def same_weights(ours, theirs, name):
    """How weights came about: every number, and the words of each step with its numbers."""
    for one, other in zip(ours, theirs, strict=True):
        if one is None:
            assert "is the mean over all vectors" in other["error"], name
            continue
        assert one["keys"] == tuple(other["keys"]), name
        assert [score is None for score in one["scores"]] == [score is None for score in other["scores"]], name
        for field in ("weight", "score", "bias", "gate", "value_length", "added_length", "share", "query", "key",
                      "weights", "scores"):  # fmt: skip
            ours_, theirs_ = (np.array(side[field], float) for side in (one, other))
            np.testing.assert_allclose(theirs_, ours_, atol=2e-5, rtol=2e-4, err_msg=f"{name}: {field}")
        assert [step for step, _ in one["steps"]] == [step for step, _ in other["steps"]], name
        for (_, text), (_, again) in zip(one["steps"], other["steps"], strict=True):
            assert NUMBER.sub("0", text) == NUMBER.sub("0", again), name
            numbers = ([float(number) for number in NUMBER.findall(side)] for side in (text, again))
            np.testing.assert_allclose(*numbers, rtol=2e-2, atol=2e-3, err_msg=f"{name}: {text} | {again}")


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def same_attentions(ours, theirs, name):
    """Of every kind and layer, to five digits."""
    found = {(one["kind"], one["layer"]): torch.tensor(one["weights"]).view(one["shape"]) for one in theirs}
    assert {(one.kind, one.layer) for one in ours} == found.keys(), name
    for one in ours:
        assert torch.allclose(torch.from_numpy(one.weights), found[one.kind, one.layer], atol=1e-5), (name, one.kind)


@needs_chromium
def test_the_tokenizer_of_a_page_cuts_and_joins_as_ours(tmp_path):
    texts = [
        'Luis said: "Hola, señor!" ¿Qué tal? It’s 3.14 at 10:30.', "don't  stop\tnow — l'eau… a/b (c) «e» 5,000€",
        "naïve café ½ 日本語 テスト 한국어", "", "  lead and trail ", "</s> <unk> <s>hello", "emoji 😀 ok",
        "▁ under ￭ glue ■", "a-b c_d e.f g'h 1.2.3 UPPER lower",
    ]  # fmt: skip
    cases = []
    for kind in ("word", "space", "character", "byte", "bytes", "bpe", "unigram"):
        for lowercase in (False, True):
            one = Tokenizer.train([*texts[:3], TEXT] * 3, kind, size=300, lowercase=lowercase)
            ids = [one.encode(text) for text in texts]
            cases.append({"spec": tokenizer(one), "ids": ids, "back": [one.decode(some) for some in ids]})
    for lowercase in (False, True):
        trained = BertWordPieceTokenizer(lowercase=lowercase)
        trained.train_from_iterator([*texts[:3], TEXT] * 3, vocab_size=120, min_frequency=1, show_progress=False)
        one = Tokenizer.from_json(trained.to_str())
        ids = [one.encode(text) for text in texts]
        cases.append({"spec": tokenizer(one), "ids": ids, "back": [one.decode(some) for some in ids]})
    start = f"""tree.cases.map(({{ spec, ids }}) => {{
  const one = new Tokenizer(spec), texts = {json.dumps(texts)};
  return {{ ids: texts.map((text) => one.encode(text)), back: ids.map((some) => one.decode(some)) }};
}})"""
    for case, found in zip(cases, in_browser({"cases": cases}, start, tmp_path), strict=True):
        assert found["ids"] == case["ids"], case["spec"]["kind"]
        assert found["back"] == case["back"], case["spec"]["kind"]


def test_what_the_runtime_has_no_class_for_is_refused_by_name():
    class Surprise(torch.nn.Module):
        pass

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Surprise())
    with pytest.raises(RefusalError, match=r"Surprise \(1\)"):
        module_tree(model)


@pytest.mark.parametrize("recipe", ["shapes-ask", "answer-transformer", "tags", "tones", "lag"])
def test_an_input_that_a_page_cannot_take_is_refused_with_a_sentence(recipe):
    job = make_job(config.read(recipe))
    with pytest.raises(RefusalError, match="one text or one picture"):
        described_input(Untrained(job, None, job.recipe))


def test_shared_weights_are_in_the_file_once():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    tree, numbers = module_tree(model)
    assert len(numbers.tensors) == 1
    assert [part["parameters"]["weight"] for part in tree["parts"]["parts"]] == [0, 0]
    assert len(base64.b64encode(numbers.bytes())) == 24


def test_every_class_that_is_promised_is_there():
    """What Python lets through, the script has."""
    classes = re.search(r"CLASSES = \{(.*?)\}", runtime(), re.DOTALL)
    assert classes is not None
    assert set(KNOWN) == set(re.findall(r"\w+", classes[1]))
    assert len(RUNTIME) == len(set(RUNTIME))
