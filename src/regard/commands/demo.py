"""`regard demo`: train a translator on the embedded corpus, score it, and show where it looks."""

import shutil
from pathlib import Path

from rich.console import Console

from regard import api
from regard.look import matrix

RECIPE = "translate-recurrent"

#: What the lectures look at, none of it in the training data: two words that become one, a clitic that jumps to the
#: front, one English word with two translations, an adjective that changes place.
SENTENCES = (
    "We are eating bread.",
    "I am writing a letter to her.",
    "The girl is writing the letter B.",
    "The woman bought the red house and the man painted it.",
)


def demo(output: Path, *, fresh: bool = False) -> None:
    """About four minutes on two cores. A demo that was stopped goes on; a finished one is only shown."""
    console = Console()
    if fresh:
        shutil.rmtree(output, ignore_errors=True)
    console.rule(f"[bold]Training {RECIPE} on the embedded English-Spanish corpus")
    run = api.train(RECIPE, output=output)
    console.rule("[bold]Scores on 1,000 sentences that it has never seen")
    console.print(run.evaluate(alignments=True).table())
    console.rule("[bold]Where it looks: rows are words it wrote, columns words it read")
    for prediction in run.predict(SENTENCES, attention=True):
        console.print(f"\n[bold]{prediction.input}[/] → [bold]{prediction.text}")
        if prediction.alignment is not None:
            console.print(
                matrix(prediction.alignment.mean, prediction.alignment.rows, prediction.alignment.columns, console)
            )
    console.rule()
    console.print(f"The report: {output / 'report.html'} (open it in a browser; it needs no network)")
    console.print(f'Translate:  regard predict {output} "We are eating bread."')
