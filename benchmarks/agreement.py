"""Agreement of explanations with other libraries, on the same weights: a random GPT-2 and a random Llama.

    pip install -r benchmarks/peers.txt -c constraints.txt      # in an environment of its own, with regard
    python benchmarks/agreement.py

    TransformerLens   patching of heads and of positions, logit lens, direct logit attribution       GPT-2
    LXT               AttnLRP                                                                        GPT-2, Llama
    captum            input × gradient, integrated gradients                                         GPT-2, Llama

Each line has the largest difference from regard, and the largest number of the other library. A library that is not
installed is left out. The models of the other libraries are in `benchmarks/peers/explaining.py`.
"""

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from peers.explaining import FAMILIES, captum_gradients, lens_explanations, lxt_relevance, our_explanations

FAR = 1e-4  # of the largest number of theirs


def agreement() -> list[dict]:
    rows = []
    for family in FAMILIES:
        with TemporaryDirectory(prefix="regard-agreement-") as folder:
            theirs, ours = FAMILIES[family](Path(folder)), our_explanations(Path(folder))
            for peer, explain in {
                "TransformerLens": lens_explanations, "captum": captum_gradients, "LXT": lxt_relevance,
            }.items():  # fmt: skip
                try:
                    found = explain(theirs)
                except ImportError as error:
                    print(f"{peer} is not here ({error}): pip install -r benchmarks/peers.txt", file=sys.stderr)
                    continue
                for name, table in found.items():
                    size, apart = float(np.abs(table).max()), float(np.abs(table - ours[name]).max())
                    rows.append({"model": family, "peer": peer, "explanation": name, "apart": apart, "largest": size})
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args(arguments)
    rows = agreement()
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'model':<8} {'peer':<16} {'explanation':<24} {'apart':>10} {'largest':>10}")
        for row in rows:
            name = f"{row['model']:<8} {row['peer']:<16} {row['explanation']:<24}"
            print(f"{name} {row['apart']:>10.1e} {row['largest']:>10.2f}")
    wrong = [row for row in rows if row["apart"] > FAR * max(1.0, row["largest"])]
    if wrong:
        sys.exit(f"{len(wrong)} of {len(rows)} do not agree to {FAR:g}")


if __name__ == "__main__":
    main()
