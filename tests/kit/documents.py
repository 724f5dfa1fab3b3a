"""Tables of the documents."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
METRICS = ROOT / "docs" / "metrics.csv"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def rows(heading: str, document: str = OPERATIONS) -> list[list[str]]:
    """The cells of the tables from `heading` to the end of its section."""
    text = document[document.index(heading) :].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and "---" not in line
    ]
