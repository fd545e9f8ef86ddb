"""The command line: the root, and its commands."""

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import online_rank
from online_rank.cli.declaring import flag, grouped, value
from online_rank.support.registry import COMMANDS, GROUPS


class _PlainFlags:
    """Commands whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


def _group(name: str, help: str) -> typer.Typer:
    return typer.Typer(
        cls=_Group,
        name=name,
        help=help,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = _group("online-rank", "Online learning to rank: a model that learns from one query at a time.")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, flag("--version", "Print the version.")] = False,
    modules: Annotated[
        list[str] | None,
        value("MODULE", "Import a module that registers classes and losses of your own; may be repeated.", "--import"),
    ] = None,
) -> None:
    """Online learning to rank: a model that learns from one query at a time."""
    if modules:
        from online_rank.extensions import import_modules

        import_modules(modules)
    if context.invoked_subcommand and sys.stderr.isatty() and not {"-h", "--help"} & set(sys.argv):
        from online_rank._kernels._jit import on_compilation

        notices = iter(["Compiling kernels for the first time: takes some seconds, once.\n"])
        # An iterator gives its line once.
        on_compilation(lambda _: sys.stderr.writelines(notices))
    if version:
        from online_rank._kernels.ahead.loading import in_use

        print(f"online-rank {online_rank.__version__}\nkernels: {in_use()}")
        raise typer.Exit


for _module, _functions in COMMANDS.items():
    _commands = importlib.import_module(f"online_rank.cli.commands.{_module}")
    _to = app
    if _module in GROUPS:
        _to = _group(_module, GROUPS[_module])
        app.add_typer(_to)
    for _function in _functions:
        _to.command(cls=_Command)(grouped(getattr(_commands, _function)))
