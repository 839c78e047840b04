"""`regard demo`: train a translator on the embedded corpus, score it, and show where it looks."""

import shlex
from pathlib import Path

from rich.console import Console

from regard import api
from regard.exporters.export import export
from regard.exporters.html.format import browser
from regard.look import matrix
from regard.next_commands import as_typed

RECIPE = "translate-recurrent"
VALIDATE_EVERY = 100  # steps: often enough to see the translations improve

#: Phenomena of the lectures, not in the training data: two words that become one, a clitic that moves to the front,
#: one English word with two translations, an adjective that changes place.
SENTENCES = (
    "We are eating bread.",
    "I am writing a letter to her.",
    "The girl is writing the letter B.",
    "The woman bought the red house and the man painted it.",
)


def demo(output: Path, *, fresh: bool = False) -> None:
    """Run the demo, in about three minutes on two cores. Resume an interrupted demo; only show a finished one."""
    console = Console()
    console.rule("[bold]1 of 3: training")
    console.print(
        f"The recipe {RECIPE} learns to translate English into Spanish from the sentences that come with regard: no "
        "network, no GPU. It prints one translation at each validation. Ctrl-C stops; the same command resumes."
    )
    run = api.train(RECIPE, output=output, overwrite=fresh, training={"validate_every": VALIDATE_EVERY})
    console.rule("[bold]2 of 3: test scores, on 1,000 sentences that are not in the training data")
    console.print(run.evaluate(alignments=True).table())
    console.rule("[bold]3 of 3: where it looks; rows are output words, columns are input words")
    for prediction in run.predict(SENTENCES, attention=True):
        console.print(f"\n[bold]{prediction.input}[/] → [bold]{prediction.text}")
        if prediction.alignment is not None:
            console.print(
                matrix(prediction.alignment.mean, prediction.alignment.rows, prediction.alignment.columns, console)
            )
    console.rule()
    page = output / "page"
    size = export(run, to="html", out=page, check=browser() is not None).bytes
    console.print(
        f"{page / 'index.html'} ({size / 1e6:.1f} MB) has the model and a page to try it and see where it looks: "
        "it opens in any browser, also on another machine, and sends nothing anywhere."
    )
    console.print(f"The report is {output / 'report.html'}: open it in a browser; it needs no network. Next:", end="")
    where, sentence = shlex.quote(str(output)), '"The boy is reading a book."'
    commands = (f"predict {where} {sentence}", f"look {where} {sentence} -o look.html", "train examples/pairs.tsv")
    console.print(as_typed(commands), soft_wrap=True, highlight=False)
