"""The two kinds of commands: a noun has verbs, a verb does something. Both take the options of the
connection, correct what was typed wrong, and show an example in their help.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module

import click

from raftka.cli.connection_options import ConnectionOption, chosen, options_before_nouns
from raftka.cli.options import Option
from raftka.cli.tree.corrections import correct_command, correct_option
from raftka.cli.tree.extras import missing_extra

SHORTEST_HELP = 20  # columns of a line beside the name of a command


@contextmanager
def corrected(context: click.Context, words: Sequence[str]) -> Iterator[None]:
    """Say what was meant by an option that is not there. `words`: of the command line, behind the
    command of `context`.
    """
    try:
        yield
    except click.NoSuchOption as error:
        meant = correct_option(context, error.option_name, words)
        if meant is None:
            raise
        raise click.UsageError(f"No such option {error.option_name!r}. {meant}", context) from None


class Verb(click.Command):
    """A command that does something."""

    def __init__(self, *args: Option, example: str | Sequence[str] = (), **options: Option) -> None:
        """`example`: command lines that are shown in the help."""
        super().__init__(*args, **options)
        self.examples = (example,) if isinstance(example, str) else tuple(example)

    @property
    def connects(self) -> bool:
        """True where it has the options of the connection."""
        return any(isinstance(each, ConnectionOption) for each in self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raises UsageError for a connection that the command does not make."""
        with corrected(ctx, tuple(args)):
            rest = super().parse_args(ctx, args)
        given = chosen(ctx).given
        if given and not self.connects and not ctx.resilient_parsing:
            raise click.UsageError(
                f"{ctx.command_path} connects to no cluster: leave out {', '.join(given)}", ctx
            )
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of the connection stand in a section of their own."""
        own: list[tuple[str, str]] = []
        connection: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                (connection if isinstance(param, ConnectionOption) else own).append(record)
        for title, records in (("Options", own), ("Connection", connection)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for each in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{each}\n")
        super().format_epilog(ctx, formatter)


class Noun(click.Group):
    """A group of commands."""

    command_class = Verb

    def __init__(self, *args: Option, **options: Option) -> None:
        super().__init__(*args, **options)
        self.params.extend(options_before_nouns(hidden=True))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with corrected(ctx, tuple(args)):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        raise click.UsageError(
            " ".join((f"No such command {name!r}.", correct_command(ctx, args))).strip(), ctx
        )


Noun.group_class = Noun


class Root(Noun):
    """The whole tree, shown in sections. `packages` beside raftka bring groups of their own: found
    by name, imported when they are called.
    """

    group_class = Noun

    def __init__(self, *args: Option, **options: Option) -> None:
        super().__init__(*args, **options)
        self.sections: Mapping[str, Sequence[str]] = {}  # by title: names of commands
        self.packages: Mapping[str, str] = {}  # by group: a module with `group`
        for each in self.params:
            if isinstance(each, ConnectionOption):
                each.hidden = False

    def invoke(self, ctx: click.Context) -> object:
        """Raises ClickException when a command needs an extra that is not installed."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            sentence = missing_extra(error)
            if sentence is None:
                raise
            raise click.ClickException(sentence) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = [name for name in self.packages if self._of_package(name) is not None]
        return sorted([*super().list_commands(ctx), *found])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self._of_package(cmd_name)

    def _of_package(self, name: str) -> click.Command | None:
        """Return the group, or None where its package is not installed."""
        if name not in self.packages:
            return None
        try:
            group: click.Command = import_module(self.packages[name]).group
            return group
        except ModuleNotFoundError as error:
            if error.name == self.packages[name].partition(".")[0]:
                return None
            raise

    def sectioned(self, ctx: click.Context) -> dict[str, list[str]]:
        """Return the names of all commands by section; those of no section stand last."""
        left = self.list_commands(ctx)
        found = {}
        for title, names in self.sections.items():
            found[title] = [name for name in names if name in left]
            left = [name for name in left if name not in names]
        return {title: names for title, names in {**found, "More": left}.items() if names}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = self.sectioned(ctx)
        widest = max(len(name) for names in sections.values() for name in names)
        room = max(SHORTEST_HELP, formatter.width - widest - 6)
        for title, names in sections.items():
            rows = [
                (name.ljust(widest), command.get_short_help_str(room))
                for name in names
                if (command := self.get_command(ctx, name)) is not None and not command.hidden
            ]
            with formatter.section(title):
                formatter.write_dl(rows)
