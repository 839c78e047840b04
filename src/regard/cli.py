"""The command line. Each command only calls the function that does the work; heavy modules are imported at first use.

All commands follow these rules: `--json` prints one JSON document on standard output and nothing else there; messages
go to standard error. The exit code is 0 for success, 1 for a failure, 2 for a wrong call, and 130 if interrupted.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import click

from regard.commands import cli_tools
from regard.commands.options import (
    OutputFile,
    Verbs,
    data_options,
    emit,
    explain_options,
    fresh_option,
    json_option,
    limit_options,
    output_folder,
    overrides_argument,
    print_message,
    quantize_option,
    recipe_argument,
    run_argument,
    run_command,
    show_table,
    with_limits,
)
from regard.commands.quick_torch import quick_torch
from regard.errors import CallError, RegardError
from regard.kernels.compiled import wait_briefly
from regard.version import __version__

LONG_WORK = ("demo", "train", "evaluate", "predict", "compare", "verify")  # use large tensors until the process ends


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="regard")
@click.option("--debug", is_flag=True, help="Also show the traceback of an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Train attention models on your own data, and see where they look."""
    context.ensure_object(dict)["debug"] = debug
    wait_briefly()
    if context.invoked_subcommand in LONG_WORK:
        from regard.kernels.compiled import keep_memory

        keep_memory()


@cli.command()
@click.option("-o", "--output", type=output_folder, default="runs/demo", help="Folder of the run.")
@fresh_option
def demo(output: Path, fresh: bool) -> None:
    """Train a translator offline and show where it looks."""
    from regard.commands.tools import demo as run_demo

    run_demo(output, fresh=fresh)


@cli.command()
@json_option
@click.option("--schema", is_flag=True, help="Print the JSON schema of recipes, for editors.")
def recipes(as_json: bool, schema: bool) -> None:
    """List recipes, and which recipe fits which data."""
    from regard import config
    from regard.commands.tools import describe_recipes, recipe_lines

    if schema:
        return emit(config.schema())
    emit(describe_recipes()) if as_json else click.echo("\n".join(recipe_lines()))


@cli.command()
@recipe_argument
@overrides_argument
@json_option
def check(recipe: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check data, or the data of a recipe, before training."""
    from regard import api
    from regard.data.check_table import check_table

    report = api.check(recipe, overrides)
    emit(report.as_dict()) if as_json else show_table(check_table(report))
    if report.errors:
        raise RegardError(f"the data cannot be trained on: {len(report.errors)} of the findings above are errors")


@cli.command()
@recipe_argument
@overrides_argument
@click.option("-o", "--output", type=output_folder, help="Folder of the run (runs/RECIPE); a stopped run resumes.")
@fresh_option
@click.option("--show-config", is_flag=True, help="Print the full recipe with each field's help, and stop.")
@click.option("--check/--no-check", default=True, help="Check the data before the first step.")
@click.option("--watch", is_flag=True, help="Serve a page of the run while it trains (http://127.0.0.1, a free port).")
@data_options
@limit_options
@json_option
def train(
    recipe: str,
    overrides: tuple[str, ...],
    output: Path | None,
    fresh: bool,
    show_config: bool,
    check: bool,
    watch: bool,
    job: str | None,
    yes: bool,
    dry_run: bool,
    max_steps: int | None,
    time_limit: str | None,
    as_json: bool,
) -> None:
    """Train on your data, or resume where training stopped.

    RECIPE is a name that `regard recipes` lists, a YAML file, or data (a file, two parallel files, a folder);
    see docs/own-data.md. If the folder has a run of other data or of another recipe, --fresh replaces it.
    """
    from regard import config
    from regard.commands.train_data import folder_for, is_data, recipe_for

    from_data = is_data(recipe)
    given = with_limits(overrides, max_steps, None if from_data else time_limit)
    if (job or dry_run) and not from_data:
        config.find(recipe)  # raises if no such recipe or data exists
        raise click.UsageError("--job and --dry-run are for data, from which a recipe is made: regard train DATA")
    settings = None if from_data else config.read(recipe, given)
    if show_config and settings is not None:
        return emit(config.as_tree(settings)) if as_json else click.echo(config.show(settings), nl=False)
    from regard.runs.request import run_begun

    folder = output or folder_for(recipe, settings, print_message)
    deadline = None
    with run_begun(folder, overwrite=fresh, needs=(recipe,)):
        if settings is None:
            file, deadline = recipe_for(
                recipe, folder, job=job, time_limit=time_limit, overrides=given, yes=yes, report=print_message
            )
            settings = config.read(file, given)
        if show_config or dry_run:
            shown = config.as_tree(settings) if as_json else config.show(settings)
            return emit(shown) if as_json else click.echo(shown if show_config else "", nl=False)
        from regard import api

        run = api.train(settings, output=folder, check=check, watch=watch, deadline=deadline)
    if os.environ.get("RANK", "0") == "0":  # under torchrun, only one process prints
        emit(run.summary()) if as_json else print_message(run.closing_words())


def _run_options(command: Any) -> Any:
    return run_argument(overrides_argument(json_option(command)))


@cli.command()
@_run_options
@click.option(
    "--alignments", is_flag=True, help="Alignment error of every layer and head against gold word alignments."
)
@click.option("-o", "--output", type=OutputFile(), help="Also write tables and pictures to FILE.html.")
@quantize_option
def evaluate(
    run: Path, overrides: tuple[str, ...], as_json: bool, alignments: bool, output: Path | None, quantize: Any
) -> None:
    """Score a trained model on its test data, or on data.test=FILE."""
    from regard import api
    from regard.commands.train_data import require_page, write_page

    if output is not None:
        require_page(output)
    if (file := next((word for word in overrides if "=" not in word and Path(word).exists()), None)) is not None:
        raise CallError(f"{file} is a file: to score the model on it, write data.test={file}")
    scores = api.load(run, quantize=quantize).evaluate(overrides, alignments=alignments)
    if output is not None:
        write_page(scores, f"{run.name}: test scores", output)
        print_message(f"written: {output}")
    emit(scores.as_dict()) if as_json else show_table(scores.table())


@cli.command()
@run_argument
@click.argument("inputs", nargs=-1, metavar="[INPUT]... [KEY=VALUE]...")
@click.option(
    "--input", "input_file", type=click.Path(path_type=Path),
    help="Read inputs from a file: lines, or a table (.csv, .tsv, .jsonl, .parquet, .xlsx) by the columns of training.",
)  # fmt: skip
@click.option("--column", metavar="NAME", help="The column of the table of --input that holds the inputs.")
@click.option(
    "-o", "--output", "output_file", type=OutputFile(or_folder=True),
    help="Write outputs to a file, one per line; a forecast also as .png, .svg, .pdf; drawings as .png or in a folder.",
)  # fmt: skip
@click.option("--n-best", type=click.IntRange(min=1), help="Hypotheses for each input (decoding.n_best).")
@click.option("--prefix", default="", help="Forced prefix of every output.")
@click.option("--targets", type=click.Path(path_type=Path), help="Score the outputs in this file, one per line.")
@click.option("--scores", is_flag=True, help="Print the score that ranks each output; --json has log-probabilities.")
@click.option("--without", multiple=True, metavar="HEAD", help="Mask a head, such as cross.2.3; may be repeated.")
@click.option("--about", metavar="FILE", help="The inputs are questions about this text (or -) or picture.")
@click.option("--format", "form", type=click.Choice(["vtt", "textgrid"]), help="For sound: transcripts with times.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes that share a file; by default, one per core.")
@quantize_option
@click.option("--labels", metavar="A,B,...", help="For a match run: labels to choose from, printed with probabilities.")
@click.option("--template", multiple=True, metavar="TEXT", help="Text around a label: 'a photo of a {}'; repeatable.")
@json_option
def predict(
    run: Path,
    inputs: tuple[str, ...],
    input_file: Path | None,
    column: str | None,
    output_file: Path | None,
    n_best: int | None,
    prefix: str,
    targets: Path | None,
    scores: bool,
    without: tuple[str, ...],
    about: str | None,
    form: str | None,
    workers: int | None,
    quantize: str | None,
    labels: str | None,
    template: tuple[str, ...],
    as_json: bool,
) -> None:
    """Predict for the given inputs, a file, or standard input.

    If predicting a file was interrupted, give the same command again to resume.
    """
    quick_torch()
    from regard.commands import predict as command

    scores = scores or labels is not None
    wish = command.PredictRequest(
        input_file, output_file, n_best, prefix, targets, scores, as_json, without, about, form, workers, quantize,
        column,
    )  # fmt: skip
    command.predict(run, (*inputs, *command.choices(labels, template)), wish)


@cli.command()
@run_argument
@click.argument("inputs", nargs=-1, metavar="[INPUT] [KEY=VALUE]...")
@click.option("-o", "--output", type=OutputFile(), help="Draw into FILE.png, .svg, .pdf, .html or .npz.")
@click.option(
    "--view", type=click.Choice(["matrix", "lines", "grid", "text", "overlay", "beams"]),
    help="How to draw it. Default: over the image, sound or series (overlay), else as a matrix.",
)  # fmt: skip
@click.option("--kind", type=click.Choice(["cross", "encoder", "decoder"]), help="Cross-attention, or self-attention.")
@click.option("--layer", type=int, help="One layer, from 0; -1 is the last. Default: all layers.")
@click.option("--head", default="mean", help="A head, from 0; or the mean or max over heads.")
@click.option("--method", default="raw", help="raw, rollout, norm, ...; see docs/look.md.")
@click.option("--words", is_flag=True, help="Merge sub-words into words.")
@click.option("--no-specials", is_flag=True, help="Hide the special tokens for begin, end and padding.")
@click.option("--log", is_flag=True, help="Colors on a logarithmic scale.")
@click.option("--target", help="Force this output instead of the predicted one.")
@click.option("--prefix", default="", help="Forced prefix of the output.")
@click.option("--without", multiple=True, metavar="HEAD", help="Mask a head, such as cross.2.3; may be repeated.")
@click.option("--gold", metavar="LINKS", help='Gold word links, such as "0-0 1-2": adds the alignment error.')
@click.option("--evidence", is_flag=True, help="Also test whether the output depends on the attended inputs.")
@click.option("--n-best", type=click.IntRange(min=1), help="Hypotheses to keep, for --view beams.")
@click.option("--sample", is_flag=True, help="Sample the output: decoding.temperature=0.8, .top_k, .top_p, .seed.")
@click.option("--against", type=click.Path(path_type=Path), help="Compare with a second run or record.")
@click.option("--row", type=int, help="Only this row (one output word) of the overlay or of --explain.")
@click.option("--about", metavar="FILE", help="The input is a question about this text (or -) or picture.")
@click.option("--positions", is_flag=True, help="The model's position table (RUN `positions`: the sinusoidal one).")
@explain_options
@click.option(
    "--training",
    is_flag=True,
    help="Attention during training, on validation input INPUT (default 0); or --profile.",
)
@json_option
def look(
    run: Path,
    inputs: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    positions: bool,
    training: bool,
    **wish: Any,
) -> None:
    """Show where a model looks, in the terminal or as a picture."""
    quick_torch()
    from regard.commands import look as command

    if positions or (str(run) == command.POSITIONS and not run.exists()):
        return command.look_at_positions(run, output, as_json)
    if training:
        return command.look_at_training(run, inputs, output, command.LookRequest(**wish), as_json)
    command.look(run, inputs, output, command.LookRequest(**wish), as_json)


@cli.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN [RUN]...")
@click.option("--models/--no-models", default=True, help="--no-models serves only the page of runs and loads nothing.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 chooses a free port.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="Require the API key in this file from clients.")
@click.option("--max-length", type=click.IntRange(min=1), default=1000, show_default=True, help="Characters per text.")
@click.option(
    "--max-work", type=click.IntRange(min=1), default=1_000_000, show_default=True,
    help="Maximum vectors a model processes for one request, over all decoding steps and attention passes.",
)  # fmt: skip
@click.option("--queue", type=click.IntRange(min=1), default=256, show_default=True, help="Limit of waiting requests.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=30.0, show_default=True, help="Seconds per request."
)
@quantize_option
def serve(
    runs: tuple[Path, ...],
    models: bool,
    host: str,
    port: int,
    api_key_file: Path | None,
    quantize: Any,
    **limits: Any,
) -> None:
    """Serve predictions over HTTP, with a web page.

    RUN may be a folder of runs: the page /runs shows all of them, also during training.
    """
    quick_torch()
    from regard.serve.command import read_key
    from regard.serve.command import serve as run_service
    from regard.serve.errors import Limits

    run_service(runs, host, port, Limits(api_key=read_key(api_key_file), **limits), quantize, models=models)


@cli.command()
@recipe_argument
@overrides_argument
@click.option("--vary", multiple=True, metavar="KEY=A,B", help="Train once for each value; repeat for a grid.")
@click.option("-o", "--output", type=output_folder, default="runs/compare", help="Folder of the runs.")
@limit_options
@json_option
def compare(
    recipe: str,
    overrides: tuple[str, ...],
    vary: tuple[str, ...],
    output: Path,
    max_steps: int | None,
    time_limit: str | None,
    as_json: bool,
) -> None:
    """Train variants of a recipe and compare them."""
    from regard.commands.compare import compare as run_compare

    result = run_compare(recipe, with_limits(overrides, max_steps, time_limit), vary, output)
    if as_json:
        return emit(result.as_dict())
    show_table(result.table())
    print_message(f"all scores, curves and a sample of each: {result.page}")


@cli.command()
@recipe_argument
@overrides_argument
@click.option("-o", "--output", type=output_folder, help="Folder of the run (runs/verify-RECIPE).")
@json_option
def verify(recipe: str, overrides: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Run a recipe and compare its score with the promised one."""
    from regard.commands.compare import verify as run_verify

    result = run_verify(recipe, overrides, output or Path("runs") / f"verify-{Path(recipe).stem}")
    emit(result.as_dict()) if as_json else click.echo(result.sentence())
    if not result.met:
        raise RegardError("the promised score was not reached")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for your shell.

    For bash: eval "$(regard completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "regard", "_REGARD_COMPLETE").source())


for command in (
    *(cli_tools.index, cli_tools.search, cli_tools.bench, cli_tools.cost_command),
    *(cli_tools.import_, cli_tools.export, cli_tools.data, cli_tools.doctor),
):
    cli.add_command(command)


def main() -> None:
    """Run the command line."""
    asked: dict[str, bool] = {}
    code = run_command(lambda: cli.main(prog_name="regard", standalone_mode=False, obj=asked), asked)
    gc.freeze()  # the process ends here; skip a last garbage collection over all of torch
    sys.exit(code)
