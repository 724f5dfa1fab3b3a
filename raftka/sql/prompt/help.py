"""`help` at the prompt: the statements, and one of them with an example."""

from difflib import get_close_matches

STATEMENTS = {  # by their first word: the form, a sentence, an example
    "SELECT": (
        "SELECT expressions FROM topic [WHERE condition] [GROUP BY ...] [ORDER BY ...] [LIMIT n]",
        "Rows of a topic from its beginning to its end now. A topic has key, value, partition, "
        "offset and timestamp; a name with dots or dashes stands in `backticks`.",
        "SELECT partition, count(*), max(timestamp) FROM trucks GROUP BY ALL;",
    ),
    "WITH": (
        "WITH name AS (SELECT ...) SELECT ...",
        "Give a query a name, and use it in another one.",
        "WITH late AS (SELECT * FROM trucks WHERE offset > 100) SELECT count(*) FROM late;",
    ),
    "VALUES": ("VALUES (value, ...), ...", "Rows that stand in the statement.", "VALUES (1), (2);"),
    "DESCRIBE": (
        "DESCRIBE topic",
        "Columns of a topic and their types.",
        "DESCRIBE trucks;",
    ),
    "EXPLAIN": (
        "EXPLAIN SELECT ...",
        "Spark's plan of a query; nothing is read.",
        "EXPLAIN SELECT key FROM trucks;",
    ),
}
KEYS = """\
A statement ends with ; and may have many lines. With \\G instead, each column has its line.
Tab completes names, Ctrl-R searches the history, Ctrl-C ends an answer, Ctrl-D or exit the prompt.
"""


def help_text(words: str) -> str:
    """Return the text for `help WORDS`; empty: of all statements."""
    if not words:
        forms = "\n".join(f"  {form}" for form, _, _ in STATEMENTS.values())
        return f"{forms}\n  help STATEMENT\n\n{KEYS}"
    name = words.split(maxsplit=1)[0].upper()
    if name not in STATEMENTS:
        near = get_close_matches(name, STATEMENTS, 1)
        hint = f"; is it {near[0]}?" if near else ""
        return f"there is no help for {name}{hint} There is for {', '.join(STATEMENTS)}\n"
    form, meaning, example = STATEMENTS[name]
    return f"  {form}\n\n{meaning}\n\n  {example}\n"
