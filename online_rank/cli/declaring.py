"""How commands declare their options.

A group is a named tuple whose fields are options, or groups. A command takes it as one parameter (`grouped`), or some of its
options as `Annotated[Group, ("option", ...)]`.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, get_args, get_type_hints

import typer

#: Whether the command that runs was asked for JSON.
PRINTS_JSON = ContextVar("PRINTS_JSON", default=False)


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A command that takes each field of the groups among the parameters of a function as an option."""
    groups: dict[str, tuple[Any, Sequence[str]]] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind, *about = get_args(hints[parameter.name]) or (hints[parameter.name],)
        if _is_group(kind):
            groups[parameter.name] = kind, about[0] if about else kind._fields
            parameters += _options(*groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**given: Any) -> None:
        # The library takes strings, not enumerations of them.
        given = {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
        PRINTS_JSON.set(bool(given.get("json")))
        made = {name: _made(*group, given) for name, group in groups.items()}
        function(**given, **made)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple)


def _options(group: Any, names: Sequence[str]) -> Iterator[inspect.Parameter]:
    """The options that these fields of a group stand for."""
    hints = get_type_hints(group, include_extras=True)
    for name in names:
        if _is_group(hints[name]):
            yield from _options(hints[name], hints[name]._fields)
        else:
            default = group._field_defaults[name]
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])


def _made(group: Any, names: Sequence[str], given: dict[str, Any]) -> Any:
    """The group with its options, which are taken out of those given."""
    kinds = get_type_hints(group)
    fields = {name: kinds[name]._fields if _is_group(kinds[name]) else None for name in names}
    return group(**{name: _made(kinds[name], own, given) if own else given.pop(name) for name, own in fields.items()})


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, rather than left at its default."""
    return getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"


def refuse_others(context: typer.Context, allowed: set[str], option: str) -> None:
    """Raise a usage error for an option that was given, but is not among those that go with another one."""
    if others := sorted(name for name in context.params if is_given(context, name) and name not in allowed):
        raise typer.BadParameter(f"--{others[0].replace('_', '-')} does not go with {option}")


def shown(text: str) -> str:
    """Text with its brackets escaped, for help with markup."""
    return text.replace("[", r"\[")


def value(metavar: str | None, help: str, *flags: str, **others: Any) -> Any:
    """An option with a value, called as its parameter or by other flags; `metavar` is None for choices."""
    return typer.Option(*flags, metavar=metavar, help=help, **others)


def flag(flags: str, help: str) -> Any:
    """An option without a value; it may have a short form: "--quiet -q"."""
    return typer.Option(*flags.split(), help=help)
