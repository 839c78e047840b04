"""BLEU of a Multi30k run in two measures: sacreBLEU's own, and the one that papers on Multi30k report.

    regard train multi30k-quick -o runs/multi30k
    python benchmarks/multi30k.py runs/multi30k [--part test_2017_flickr] [--json]

13a, mixed case     sacreBLEU's default. `regard evaluate` reports the same.
lc.norm.tok         both sides lower-cased, punctuation normalized, tokenized by Moses, as `scripts/task1-tokenize.sh`
                    of github.com/multi30k/dataset does (which counts 12,103 German words in test_2016_flickr; so does
                    this script); then sacreBLEU with `--tokenize none -lc`. Papers on Multi30k usually report this
                    measure.

The sources and references are PART.en and PART.de of the folder multi30k in REGARD_DATA (default: data). Decoding is
the run's own. Needs sacremoses (`pip install sacremoses`).
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer

import regard


class Score(NamedTuple):
    """BLEU of one measure; `signature` is sacreBLEU's."""

    measure: str
    bleu: float
    signature: str


def tokenize(texts: Sequence[str], language: str) -> list[str]:
    """Return texts as the data set's `lc.norm.tok` files have them."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [" ".join(tokenizer.tokenize(normalizer.normalize(text.lower()))) for text in texts]


def score_outputs(outputs: Sequence[str], references: Sequence[str], language: str = "de") -> list[Score]:
    """Return BLEU of the same outputs in both measures."""
    found = []
    for name, bleu, sides in (
        ("13a, mixed case", BLEU(), (list(outputs), list(references))),
        (
            "lc.norm.tok",
            BLEU(lowercase=True, tokenize="none", force=True),
            (tokenize(outputs, language), tokenize(references, language)),
        ),
    ):
        score = bleu.corpus_score(sides[0], [sides[1]]).score
        found.append(Score(name, score, str(bleu.get_signature())))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=Path("runs/multi30k"), help="folder of a translator's run")
    parser.add_argument("--part", default="test_2016_flickr", help="test_2016_flickr, test_2017_flickr or val")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if not options.run.is_dir():
        parser.error(f"no such run: {options.run}. Train one: regard train multi30k-quick -o {options.run}")
    folder = Path(os.environ.get("REGARD_DATA", "data")) / "multi30k"
    if not (folder / f"{options.part}.en").is_file():
        parser.error(f"no such file: {folder / options.part}.en. Set REGARD_DATA to the folder that has multi30k/")
    sources, references = (
        (folder / f"{options.part}.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")
    )
    predictions: Any = regard.load(options.run).predict(sources)
    scores = score_outputs([one.text for one in predictions], references)
    if options.json:
        print(json.dumps({"part": options.part, "scores": [score._asdict() for score in scores]}, indent=1))
        return
    print(f"{options.part}, {len(sources):,} sentences")
    for score in scores:
        print(f"{score.measure:<18}{score.bleu:6.2f}  {score.signature}")


if __name__ == "__main__":
    main()
