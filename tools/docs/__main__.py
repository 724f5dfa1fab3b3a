"""`./run docs [FOLDER]`: build the site of the documents; a warning is a failure."""

import argparse
from pathlib import Path

from tools.docs.build import build
from tools.docs.pages import ROOT, PageError


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run docs", description=__doc__)
    default = ROOT / "build" / "docs"
    parser.add_argument("folder", type=Path, nargs="?", default=default, metavar="FOLDER")
    folder: Path = parser.parse_args().folder
    try:
        build(folder)
    except PageError as error:
        raise SystemExit(f"./run docs: {error}") from None
    print(f"the site is in {folder}: index.html, each page as .md too, and llms.txt")


if __name__ == "__main__":
    main()
