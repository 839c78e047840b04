"""Options and output functions that commands share."""

import difflib
import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from regard.errors import CallError, RegardError, meant, missing_package
from regard.synonyms import synonyms

PLAIN = "regard.plain"  # key in a command's context: the number of words after `--`
DEVICE = "training.device"


class WordList(click.Command):
    """A command that suggests corrections for unknown options, and records the words after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[PLAIN] = len(args) - args.index("--") - 1 if "--" in args else 0
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            raise click.UsageError(_unknown_option(self, ctx, error.option_name, args), ctx) from None


def plain_words(words: Sequence[str]) -> int:
    """Return how many of a command's last words come after `--`: texts, even if they look like options."""
    ctx = click.get_current_context(silent=True)
    return 0 if ctx is None else min(len(words), ctx.meta.get(PLAIN, 0))


def settings_and_words(inputs: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split the words of a command into decoding settings and inputs. Words after `--` are inputs."""
    before = len(inputs) - plain_words(inputs)
    settings = [at for at, word in enumerate(inputs[:before]) if word.startswith("decoding.") and "=" in word]
    return tuple(inputs[at] for at in settings), [word for at, word in enumerate(inputs) if at not in settings]


def _unknown_option(command: click.Command, ctx: click.Context, option: str, args: list[str]) -> str:
    """Suggest an option or setting with the same meaning, or a similar spelling."""
    at = next((at for at, word in enumerate(args) if word.partition("=")[0] == option or word == option), None)
    if at is None:  # -epochs is parsed letter by letter
        at = next((at for at, word in enumerate(args) if word.startswith(option) and len(word) > 2), 0)
    word, _, value = args[at].partition("=")
    following = args[at + 1] if at + 1 < len(args) else ""
    value = value or (following if following and following[0] != "-" and "=" not in following else "...")
    takes = {parameter.name for parameter in command.params}
    known = [name for parameter in command.params if isinstance(parameter, click.Option) for name in parameter.opts]
    sections = ("decoding.",) if "inputs" in takes else ("",) if "overrides" in takes else ()
    setting = word.lstrip("-")
    if "." in setting and sections:
        return f"no option {word}: settings have no dashes, write {setting}={value}"
    options = [name for name in (word.replace("_", "-"), "-" + word, *synonyms(word)) if name in known]
    if options:
        return f"no option {word}: write {options[0]}"
    meanings = [name for name in synonyms(word) if "." in name and sections and name.startswith(sections)]
    if meanings and len(word) > 2:
        written = " or ".join(name if "=" in name else f"{name}={value}" for name in meanings[:3])
        return f"no option {word}: it is a setting, write {written}"
    if any(name.startswith(DEVICE) for name in synonyms(word)):
        return f"no option {word}: models use a GPU where PyTorch finds one; CUDA_VISIBLE_DEVICES= hides it"
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    return f"no option {word}{f'; did you mean {close[0]}?' if close else ''}"


class Verbs(click.Group):
    """A group that suggests similar commands, and lists commands in the order of definition."""

    command_class = WordList

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        word = args[0] if args else ""
        if word == "help":
            click.echo(ctx.get_help())
            ctx.exit()
        if word and not word.startswith("-") and self.get_command(ctx, word) is None:
            raise click.UsageError(f"no command {word!r}{self._advice(ctx, word)}", ctx)
        return super().resolve_command(ctx, args)

    def _advice(self, ctx: click.Context, word: str) -> str:
        if (Path(word) / "config.yaml").is_file():
            return f"; it is a run: {ctx.info_name} predict {word} INPUT"
        if Path(word).exists():
            return f"; it is a file or folder: {ctx.info_name} train {word} trains a model on it"
        close = meant(word, self.list_commands(ctx))
        return f"; did you mean {close!r}?" if close else ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class OutputFile(click.Path):
    """An output file. Fails before the work starts if its folder does not exist.

    `or_folder`: also accept a folder, for several pictures.
    """

    def __init__(self, *, or_folder: bool = False) -> None:
        super().__init__(dir_okay=or_folder, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        file = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not file.absolute().parent.is_dir():
            self.fail(f"{file}: there is no folder {file.absolute().parent}", param, ctx)
        return file


def emit(document: Any) -> None:
    """Print the one JSON document of `--json`."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def print_message(text: str) -> None:
    """Print a message to standard error, to keep standard output clean."""
    click.echo(text, err=True)


def show_table(table: Any) -> None:
    """Print a table or another object that rich can draw."""
    from rich.console import Console

    Console().print(table)


def _recipe_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from regard.config import packaged_recipes

    return [name for name in packaged_recipes() if name.startswith(incomplete)]


def _without_second_file(context: click.Context, _: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Join data of two files, `a.en a.fr`, into the recipe argument; the other words are settings."""
    recipe = context.params.get("recipe")
    if not isinstance(recipe, str) or not any("=" not in word and Path(word).is_file() for word in words):
        return words
    from regard.commands.train_data import with_second_file

    context.params["recipe"], words = with_second_file(recipe, words)
    return words


recipe_argument = click.argument("recipe", shell_complete=_recipe_names)
overrides_argument = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", callback=_without_second_file)
run_argument = click.argument("run", type=click.Path(path_type=Path))
output_folder = click.Path(file_okay=False, path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")

quantize_option = click.option(
    "--quantize",
    type=click.Choice(["int8", "bf16"]),
    help="Quantize weights: faster, slightly less exact.",
)


def limit_options(command: Any) -> Any:
    """Add the options that limit training."""
    steps = click.option(
        "--max-steps", type=click.IntRange(min=1), help="Maximum number of training steps (training.max_steps)."
    )
    time = click.option("--time-limit", help="Maximum training time, such as 2m or 1h30m (training.time_limit).")
    return steps(time(command))


fresh_option = click.option("--fresh", is_flag=True, help="Start again: replace an existing run in the folder.")


def with_limits(overrides: tuple[str, ...], max_steps: int | None, time_limit: str | None) -> tuple[str, ...]:
    limits = {"training.max_steps": max_steps, "training.time_limit": time_limit}
    return (*overrides, *(f"{key}={value}" for key, value in limits.items() if value is not None))


def data_options(command: Any) -> Any:
    """Add the options of `regard train DATA`."""
    for option in (
        click.option("--dry-run", is_flag=True, help="DATA: write the recipe, and stop before training."),
        click.option("--yes", is_flag=True, help="DATA: where two interpretations are possible, use the likelier one."),
        click.option("--job", help="DATA: the job to train; an error if the data does not fit it."),
    ):
        command = option(command)
    return command


def explain_options(command: Any) -> Any:
    """Add the options of `regard look` that explain a model."""
    for option in (
        click.option("--profile", is_flag=True, help="What each head attends to, over INPUT validation inputs (16)."),
        click.option(
            "--instead",
            metavar="WORD",
            help="Contrast the output with this word, for explanations of the output.",
        ),
        click.option(
            "--by",
            help="patching: heads, positions, states or paths; scores: keys or queries; "
            "inputs: integrated-gradients, attnlrp or input-gradient; with --weight: tokens.",
        ),
        click.option("--exchange", metavar="OLD=NEW", help="Patch with one word exchanged: red=blue."),
        click.option("--against-input", metavar="INPUT", help="The second input of --explain patching."),
        click.option(
            "--weight",
            metavar="LAYER,HEAD,ROW,COLUMN",
            help="Explain one weight (of --kind), from 0; ROW,COLUMN uses the head with the largest weight.",
        ),
        click.option("--explain", help="lens, logits, scores, patching or inputs; see docs/look.md."),
    ):
        command = option(command)
    return command


# The end of a command: its exit code and, if it failed, one sentence.

TOO_MUCH = "not enough memory; try a smaller model, training.max_tokens or decoding.batch_tokens"


def run_command(command: Callable[[], Any], asked: Mapping[str, bool]) -> int:
    """Run a command and return its exit code, however it ends."""
    try:
        code = command()
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.ClickException as error:
        print(f"regard: {_sentence(error)}", file=sys.stderr, flush=True)
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        said, code = explain_error(error)
        if said is None:  # a bug in regard: print the whole traceback for the report
            raise
        if asked.get("debug"):
            traceback.print_exc()
        print(f"regard: {said}", file=sys.stderr, flush=True)
    return code if isinstance(code, int) else 0


def _sentence(error: click.ClickException) -> str:
    """Format an error of click like regard's errors, with the command that lists the choices."""
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    help = (
        f" ({context.command_path} --help lists all)" if context is not None and "did you mean" not in message else ""
    )
    return f"{message[:1].lower()}{message[1:]}{help}"


def explain_error(error: BaseException) -> tuple[str | None, int]:
    """Return a sentence for the user, if there is one, and the exit code."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            return "stopped", 130
        case CallError():
            return str(error), 2
        case RegardError():
            return str(error), 1
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return f"the disk is full{_of(error)}; free some space, and run the same command again", 1
        case OSError(strerror=str(reason)):
            return f"{reason}{_of(error)}", 1
        case MemoryError():
            return TOO_MUCH, 1
        case ModuleNotFoundError():
            return missing_package(error.name), 2
        case RuntimeError() if re.search("out of memory|can't allocate memory", str(error)):  # torch's
            return TOO_MUCH, 1
    return None, 1


def _of(error: OSError) -> str:
    return f": {error.filename}" if error.filename else ""
