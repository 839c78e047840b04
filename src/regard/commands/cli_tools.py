"""Commands for tools: search, costs, pretrained models, public datasets, and the state of this machine."""

from pathlib import Path

import click

from regard.commands.options import (
    OutputFile,
    WordList,
    emit,
    json_option,
    output_folder,
    overrides_argument,
    print_message,
    recipe_argument,
    run_argument,
    show_table,
)


@click.command(cls=WordList)
@run_argument
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=OutputFile(), required=True, help="File of the index; an existing index is updated."
)
@json_option
def index(run: Path, folder: Path, output: Path, as_json: bool) -> None:
    """Index a folder of pictures by a match run, for search."""
    from regard.commands.tools import index as run_index

    made = run_index(run, folder, output)
    emit(made) if as_json else print_message(f"{made['pictures']:,} pictures: {output}")


@click.command(cls=WordList)
@click.argument("index", type=click.Path(path_type=Path))
@click.argument("text", required=False)
@click.option("--like", type=click.Path(path_type=Path), help="Search by this picture instead of a text.")
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="How many pictures.")
@click.option("--run", type=click.Path(path_type=Path), help="Folder of the run that made the index, if it was moved.")
@json_option
def search(index: Path, text: str | None, like: Path | None, k: int, run: Path | None, as_json: bool) -> None:
    """Find pictures of an index that match TEXT."""
    from regard.commands.tools import search as run_search

    found = run_search(index, text, like, k, run)
    if as_json:
        return emit(found)
    for one in found:
        click.echo(f"{one['score']:.4f}\t{one['picture']}")


@click.command(cls=WordList)
@click.argument("name", type=click.Choice(["layers"]))
@click.option("-o", "--output", type=OutputFile(), help="Also write a plot to this PNG.")
@click.option("--quick", is_flag=True, help="Few and small sizes: seconds rather than a minute.")
@json_option
def bench(name: str, output: Path | None, quick: bool, as_json: bool) -> None:
    """Measure the cost of layers on this machine as n and d grow."""
    from regard.commands.tools import bench_layers

    costs = bench_layers(quick=quick)
    if output is not None:
        costs.plot(output)
        print_message(f"plot: {output}")
    emit(costs.as_dict()) if as_json else show_table(costs.table())


@click.command(cls=WordList)
@recipe_argument
@overrides_argument
@click.option("--hardware", default="here", help="here (measured), or a GPU and a count such as a100:8.")
@click.option("--batch", type=click.IntRange(min=1), help="Sequences in a batch.")
@click.option("--length", type=click.IntRange(min=1), help="Tokens in a sequence.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="Of the arithmetic.")
@click.option(
    "--utilization", type=click.FloatRange(0, 1, min_open=True), help="Share of the hardware's peak that is reached."
)
@json_option
def cost_command(
    recipe: str,
    overrides: tuple[str, ...],
    hardware: str,
    batch: int | None,
    length: int | None,
    dtype: str | None,
    utilization: float | None,
    as_json: bool,
) -> None:
    """Estimate memory, time and FLOPs of a model."""
    from regard.commands.tools import cost as run_cost

    result = run_cost(recipe, overrides, hardware, batch=batch, length=length, dtype=dtype, utilization=utilization)
    emit(result.as_dict()) if as_json else show_table(result.table())


@click.command("import", cls=WordList)
@click.argument("source")
@click.option("-o", "--output", type=output_folder, required=True, help="Folder of the run to make.")
@click.option("--convert-pickle", is_flag=True, help="Also read pytorch_model.bin, but only its tensors.")
@json_option
def import_(source: str, output: Path, convert_pickle: bool, as_json: bool) -> None:
    """Make a run of a pretrained model.

    SOURCE: a folder, package:NAME or hub:OWNER/NAME.

    BERT and MiniLM, GPT-2, Llama, Marian and ViT from folders in Hugging Face's layout; Llama also from GGUF files.
    """
    from regard.commands.tools import import_model

    report = import_model(source, output, convert_pickle=convert_pickle)
    emit(report.as_dict()) if as_json else click.echo(report.sentence())


@click.command(cls=WordList)
@run_argument
@click.option("--to", required=True, metavar="FORMAT", help="hf, peft, ctranslate2, onnx, gguf or html.")
@click.option("-o", "--output", type=output_folder, required=True, help="Folder to write.")
@click.option("--dtype", help="Type of the exported weights: float32 by default, float16 for html.")
@click.option("--attention/--no-attention", default=None, help="onnx: also export attention weights (default: yes).")
@click.option("--check-inputs", type=click.Path(path_type=Path), help="Inputs to check the export with, one per line.")
@click.option("--no-check", is_flag=True, help="Do not compare the export with the run; its card notes this.")
@json_option
def export(
    run: Path,
    to: str,
    output: Path,
    dtype: str | None,
    attention: bool | None,
    check_inputs: Path | None,
    no_check: bool,
    as_json: bool,
) -> None:
    """Export a run, and compare the outputs."""
    from regard.exporters.export import export as run_export

    report = run_export(
        run, to=to, out=output, dtype=dtype, attention=attention, check=not no_check, inputs=check_inputs,
        report=lambda line: click.echo(line, err=True),
    )  # fmt: skip
    emit(report.as_dict()) if as_json else click.echo(report.sentence())


@click.command(cls=WordList)
@json_option
def doctor(as_json: bool) -> None:
    """Show what is installed, missing and cached."""
    from regard.commands.doctor import doctor as run_doctor

    run_doctor(as_json)


@click.command(cls=WordList)
@click.argument("name", required=False)
@click.option("-o", "--output", type=output_folder, help="Folder of all data sets (REGARD_DATA, or data).")
@click.option("--mirror", metavar="URL", help="Fetch from this URL, which has one folder per data set.")
@json_option
def data(name: str | None, output: Path | None, mirror: str | None, as_json: bool) -> None:
    """Fetch public datasets; without NAME, list them."""
    from regard.commands import tools as command

    if name is None:
        return emit(command.describe_datasets()) if as_json else click.echo("\n".join(command.dataset_lines()))
    place, following = command.get(name, output, mirror)
    if as_json:
        return emit({"folder": str(place), "next": following})
    click.echo(str(place))
    print_message("\n  ".join(["next:", *following]))
