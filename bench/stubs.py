"""`./run stubs`: write the stubs beside the modules of messages, from which mypy knows the fields
of every row.

A test (tests/wire/test_stubs.py) says when a stub is not what its module's messages are.
"""

import re
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import raftka.wire.messages
from raftka.wire.rows import NO_VERSION, Field, Struct
from raftka.wire.schema import AnyApi, Api

FOLDER = Path(raftka.wire.messages.__path__[0])
# others are int
PLAIN = {"bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes"}
IMPORTS = (
    ("from collections.abc import ", ("Sequence",), "\n\n"),
    (
        "from raftka.wire.field_types import ",
        ("Many", "One", "OwnedRecords", "RecordBytes", "Records", "Rows"),
        "\n",
    ),
    ("from raftka.wire.schema import ", ("Api", "Row"), "\n"),
)


def modules() -> list[ModuleType]:
    return [
        import_module(f"{raftka.wire.messages.__name__}.{found.name}")
        for found in iter_modules(raftka.wire.messages.__path__)
    ]


def path_of(module: ModuleType) -> Path:
    return FOLDER / f"{module.__name__.rpartition('.')[2]}.pyi"


def apis_of(module: ModuleType) -> dict[str, AnyApi]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Api)}


def stub(module: ModuleType) -> str:
    """The text of a module's stub. Raises ValueError when two structs of the module have one
    name.
    """
    apis = apis_of(module)
    structs: dict[str, Struct] = {}
    requests: set[str] = set()
    for api in apis.values():
        requests.update(struct.name for struct in api.request.struct.structs())
        for message in (api.request, api.response):
            for struct in message.struct.structs():
                if structs.setdefault(struct.name, struct) is not struct:
                    raise ValueError(f"{module.__name__}: two structs are called {struct.name}")
    numbers = "".join(
        f"{name}: int\n" for name, value in vars(module).items() if isinstance(value, int)
    )
    names = "".join(
        f"{name}: Api[{api.request.__name__}, {api.response.__name__}]\n"
        for name, api in apis.items()
    )
    body = "\n".join(
        [
            *([numbers] if numbers else []),
            *[
                _class(struct, owned=struct.name in requests)
                for struct in reversed(structs.values())
            ],
            names,
        ]
    )
    return f'"""Written by `./run stubs`, not by hand."""\n\n{_imports(body)}\n{body}'


def _imports(body: str) -> str:
    words = set(re.findall(r"\w+", body))
    used = [(head, [name for name in names if name in words], end) for head, names, end in IMPORTS]
    return "".join(head + ", ".join(names) + end for head, names, end in used if names)


def _class(struct: Struct, *, owned: bool) -> str:
    """`owned`: of a request, whose records the broker may keep."""
    if not struct.fields:
        return f"class {struct.name}(Row): ...\n"
    fields = "".join(f"    {field.name}: {_type(field, owned=owned)}\n" for field in struct.fields)
    values = "".join(f"        {field.name}: {_given(field)} = ...,\n" for field in struct.fields)
    return (
        f"class {struct.name}(Row):\n{fields}    def __init__(\n        self,\n        *,\n"
        f"{values}    ) -> None: ...\n"
    )


def _null(field: Field) -> str:
    return " | None" if field.nullable != NO_VERSION or field.default is None else ""


def _type(field: Field, *, owned: bool) -> str:
    """Of the attribute."""
    if field.kind == "records":
        return "OwnedRecords" if owned else "Records"
    if field.struct is None:
        return _given(field)
    row = field.struct.name
    return (
        f"Many[{row}, Sequence[{row}]{_null(field)}]"
        if field.array
        else f"One[{row}, {row}{_null(field)}]"
    )


def _given(field: Field) -> str:
    """Of the constructor's argument."""
    if field.kind == "records":
        return "RecordBytes | None"
    if field.struct is not None:
        value = f"Rows[{field.struct.name}]" if field.array else field.struct.name
    else:
        plain = PLAIN.get(field.kind, "int")
        value = f"Sequence[{plain}]" if field.array else plain
    return value + _null(field)


def main() -> int:
    for module in modules():
        path_of(module).write_text(stub(module))
    return 0


if __name__ == "__main__":
    sys.exit(main())
