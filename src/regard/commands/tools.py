"""Commands beside training and prediction: cost, data, demo, bench, import, recipes, search."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from regard import api, config
from regard.cost.estimate import Cost, model_cost
from regard.cost.hardware import find as find_hardware
from regard.cost.layers import QUICK_LENGTHS, QUICK_WIDTHS, measure_layers
from regard.cost.picture import LayerCosts
from regard.cost.published import PUBLISHED, published_cost
from regard.datasets.fetch import data_folder, fetch
from regard.datasets.table import DATA_SETS
from regard.errors import CallError, nearest
from regard.exporters.export import export
from regard.exporters.html.format import browser
from regard.job import make_job
from regard.jobs import BEGIN
from regard.look import matrix
from regard.pretrained.families import read
from regard.pretrained.sources import find
from regard.pretrained.weights import write_run
from regard.report.model_card import as_typed
from regard.runs.request import read_recipe
from regard.runs.search import about_bad, make_index, open_index, read_index

# `regard cost RECIPE`: estimate the cost of a recipe or a published model without building it.


def cost(
    recipe: str,
    overrides: tuple[str, ...] = (),
    hardware: str = "here",
    *,
    batch: int | None = None,
    length: int | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
) -> Cost:
    """Estimate for a published name, a packaged recipe or a YAML file. The model is on the meta device: no memory."""
    if recipe not in PUBLISHED and recipe not in config.packaged_recipes() and not Path(recipe).exists():
        raise CallError(
            f"{recipe!r} is not a recipe, file or published model"
            f"{nearest(recipe, [*PUBLISHED, *config.packaged_recipes()])}"
        )
    if recipe in PUBLISHED and overrides:
        raise CallError(f"{recipe} is a published model, which has no settings to override: {' '.join(overrides)}")
    with TemporaryDirectory(prefix="regard-cost-") as folder:
        settings = None if recipe in PUBLISHED else read_recipe(recipe, overrides, Path(folder))
    machine = find_hardware(hardware)
    if settings is None:
        return published_cost(
            recipe, hardware=machine, batch=batch, length=length, dtype=dtype, utilization=utilization
        )
    planned = make_job(settings).output.planned()
    if planned is None:
        raise CallError(
            f"{recipe}: cost supports translators, text classifiers, language models and published models; "
            f"`regard check {recipe}` estimates the model of the job {settings.job!r}"
        )
    length = length or planned.length
    return model_cost(
        planned.model,
        batch=batch or max(1, settings.training.max_tokens // (planned.texts * length)),
        length=length,
        name=recipe,
        hardware=machine,
        dtype=dtype,
        utilization=utilization,
        notes=(planned.note,),
    )


# `regard data [NAME]`: fetch a public dataset that recipes name; without a name, list them.


def describe_datasets() -> list[dict[str, Any]]:
    """Return every data set, with the recipes that use it."""
    return [
        {
            "name": name, "about": one.about, "home": one.home, "licence": one.licence, "size": one.size,
            "files": list(one.files), "recipes": recipes_of(name),
        }
        for name, one in DATA_SETS.items()
    ]  # fmt: skip


def recipes_of(name: str) -> list[str]:
    """Return the recipes whose training data is in the folder of this data set."""
    trees = {recipe: config.load_recipe(file) for recipe, file in config.packaged_recipes().items()}
    return [recipe for recipe, tree in trees.items() if f"/{name}/" in str(tree.get("data", {}).get("train"))]


def dataset_lines() -> Iterator[str]:
    for one in describe_datasets():
        yield f"{one['name']:<16}  {one['about']}; {one['size']}; {one['licence']}; {one['home']}"
    yield "regard data NAME fetches one; check its licence first"


def get(name: str, output: Path | None, mirror: str | None) -> tuple[Path, list[str]]:
    """Fetch a data set; return its folder and the next commands."""
    place = fetch(name, output, mirror=mirror)
    elsewhere = "" if output in (None, data_folder()) else f"REGARD_DATA={output} "
    return place, [f"{elsewhere}regard train {recipe}" for recipe in recipes_of(name)[:3]] or [f"regard train {place}"]


# `regard demo`: train a translator on the embedded corpus, score it, and show where it looks.

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


# `regard bench layers`: the textbook table of the costs of layers, measured on this machine.


def bench_layers(*, quick: bool = False) -> LayerCosts:
    """Measure for about a minute; `quick` takes seconds, with sizes so small that fixed costs blur the exponents."""
    if quick:
        return measure_layers(QUICK_LENGTHS, QUICK_WIDTHS, seconds=2.0)
    return measure_layers()


@dataclass(frozen=True)
class ImportReport:
    """`regard import SOURCE -o RUN`: convert a pretrained model into a run."""

    run: str
    source: str
    job: str
    about: str
    parameters: int
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        lines = [f"{self.about}: {self.parameters:,} parameters, a run of the job `{self.job}` in {self.run}"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def import_model(source: str, output: Path, *, convert_pickle: bool = False) -> ImportReport:
    found = read(find(source, pickles=convert_pickle), convert_pickle=convert_pickle)
    write_run(found, output, source=source)
    try:
        run = api.load(output)  # check that all weights fit the model that the recipe builds
    except BaseException:
        shutil.rmtree(output)
        raise
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    return ImportReport(str(output), source, run.recipe.job, run.recipe.about, parameters, found.notes)


# `regard recipes`: list the packaged recipes, and the recipe to start with for each kind of data.


def describe_recipes() -> list[dict[str, Any]]:
    """Return every packaged recipe: name, description, needs, and the data that it is recommended for."""
    begin = {recipe: data for data, recipe in BEGIN.items()}
    trees = {name: config.load_recipe(file) for name, file in config.packaged_recipes().items()}
    return [
        {
            "name": name, "job": tree["job"], "about": tree.get("about", ""), "needs": tree.get("needs", []),
            "begin_with_it_for": begin.get(name),
        }
        for name, tree in trees.items()
    ]  # fmt: skip


def recipe_lines() -> Iterator[str]:
    """Yield the list for the terminal."""
    width = max(map(len, BEGIN))
    yield "Give your data: regard train DATA makes a recipe for it. Or, if you have ..., start with:"
    for data, name in BEGIN.items():
        yield f"  {data:<{width}}  regard train {name} data.train=YOURS"
    yield ""
    recipes = describe_recipes()
    width = max(len(recipe["name"]) for recipe in recipes)
    for recipe in recipes:
        needs = f"  (needs {', '.join(recipe['needs'])})" if recipe["needs"] else ""
        yield f"{recipe['name']:<{width}}  {recipe['about']}{needs}"


# `regard index RUN FOLDER -o FILE` and `regard search FILE TEXT`: search your pictures by their content.


def index(run: Path, folder: Path, output: Path) -> dict[str, Any]:
    """Create or update an index; return a summary."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise CallError(f"-o {output}: is {'a folder' if output.is_dir() else 'in a folder that does not exist'}")
    known = read_index(output) if output.exists() else None
    made = make_index(api.load(run), folder, known=known, report=_print_message)
    for line in about_bad(made.bad):
        _print_message(line)
    made.save(output)
    return {"index": str(output), "pictures": len(made), "bad": made.bad}


def search(file: Path, text: str | None, like: Path | None, k: int, run: Path | None) -> list[dict[str, Any]]:
    if (text is None) == (like is None):
        raise CallError('nothing to search for: give a text, such as "two dogs on a beach", or --like PICTURE')
    found = open_index(file, run)
    best = found.search(text, k) if text is not None else found.like(like, k)
    return [{"picture": one.name, "score": one.score} for one in best]


def _print_message(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)
