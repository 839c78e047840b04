"""The command line. Each command is a few lines that hand over; nothing heavy is imported before it is used.

What every command keeps: `--json` gives one JSON document on standard output and nothing else there, messages go to
standard error, and the exit code is 0 done, 1 failed, 2 the call was wrong, 130 stopped.
"""

import json
import os
import sys
from typing import Any

import click

from regard import __version__
from regard.errors import CallError, RegardError, nearest


class Verbs(click.Group):
    """A group that suggests the nearest command for a mistyped one, and keeps the order of definition."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"no command {args[0]!r}{nearest(args[0], self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="regard")
def cli() -> None:
    """Train attention models on your own data, and see where they look."""


def emit(document: Any) -> None:
    """The one JSON document of `--json`."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def say(text: str) -> None:
    """A message to the user: standard error, so that standard output stays clean."""
    click.echo(text, err=True)


def show_table(table: Any) -> None:
    """Print something that rich can draw."""
    from rich.console import Console

    Console().print(table)


def _recipe_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from regard.config import packaged

    return [name for name in packaged() if name.startswith(incomplete)]


recipe_argument = click.argument("recipe", shell_complete=_recipe_names)
overrides_argument = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
COMMANDS_END = None


def main() -> None:
    """The entry point: run, and turn every way of ending into its exit code."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("regard: stopped")
        code = 130
    except CallError as error:
        say(f"regard: {error}")
        code = 2
    except RegardError as error:
        say(f"regard: {error}")
        code = 1
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
