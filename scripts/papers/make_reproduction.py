"""Make docs/reproduction.md: every table, its commands, its figures and ours.

    python scripts/papers/make_reproduction.py

Ours come from scripts/papers/made, where ``--keep`` leaves them with the commit that made them, or follow from other
published tables. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from _compare import comparison, distance_table, distances
from _ours import Ours
from _table import PAPERS, PaperTable, read_made

from judge.report.render import markdown

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "reproduction.md"
HEAD = """# The papers' tables made again

<!-- Made by scripts/papers/make_reproduction.py. -->

Each table of the four papers that this project measures has a short script in `scripts/papers`. It names the data,
prints the exact commands, runs them, and sets ours beside the published figures. What the data at
hand allow is made here; everything else is marked with the data it needs (the recipes in `data/recipes` tell where they
come from). DATA stands for a folder of them.

- **made here**: real captions of COCO's val2014 (NIC+ and NIC+Equalizer, those that were released with Women also
  Snowboard). 3,597 of the images have a class, derived from the human captions; the papers have 6,628 or 10,780 with
  annotated classes, and judges that take hours. Brackets: 95% interval; of a side's score for the judges as they were
  trained. In parentheses: ours minus the published figure. Figures of made-up data are not compared.
- **made from published tables**: what a table says follows from figures of other tables; ours are computed from those.
- **the paper's run**: the command is complete; `python scripts/papers/NAME.py --data DATA` runs it, and makes first
  what it reads besides DATA. What it needs are recipes (folders of DATA) and folders of one's own (DATA/captions,
  DATA/vectors ...), which `scripts/papers/README.md` describes.
- **not at hand**: Zhao et al.'s annotations of gender and skin tone, the pickles of LIC's release, ArtEmis, Visual
  Genome and Stable Diffusion 2.1, neither data nor weights. No figure of ours comes from them, and what reads them was
  tested on made-up files of the same form. LIC's tables were not run with its LSTM either: where ours are shown,
  `linear` stands in.
"""


def scripts() -> list[Path]:
    """The script of every table, by paper and number."""

    def order(path: Path) -> tuple[int, int, str]:
        papers = ("lic", "imagecaptioner2", "dbac", "dpac")
        digits = "".join(filter(str.isdigit, path.stem.partition("_")[2]))
        return papers.index(path.stem.partition("_")[0]), "supplement" in path.stem, digits.zfill(3)

    return sorted((path for path in FOLDER.glob("*_*.py") if path.stem.partition("_")[0] in _STEMS), key=order)


_STEMS = {"lic", "imagecaptioner2", "dbac", "dpac"}


def tables() -> list[PaperTable]:
    """What the scripts declare."""
    return [import_module(path.stem).TABLE for path in scripts()]


def status(table: PaperTable) -> str:
    """Whether ours is there, and what it needs otherwise."""
    found = []
    if made := read_made(table.name):
        what = "made here, on made-up data" if table.shared_note else "made here"
        found.append(f"{what} (commit {made.commit})")
    elif table.derived:
        found.append("made from published tables")
    if not made:
        found.append(f"not made here: {table.not_shared or 'its run (--shared) has not been kept yet'}")
    return "; ".join([*found, f"the paper's run needs {', '.join(table.needs)}"])


def page() -> str:
    """The whole page."""
    known = tables()
    named = {table.name: f"[{PAPERS[table.paper]}, {table.number}](#{anchor(table)})" for table in known}
    rows = [f"| {named[table.name]} | `scripts/papers/{table.name}.py` | {status(table)} |" for table in known]
    index = "\n".join(["| table | script | status |", "| --- | --- | --- |", *rows])
    return "\n".join([HEAD, index, "", *(part for table in known for part in section(table))]).rstrip() + "\n"


def anchor(table: PaperTable) -> str:
    """Of the table's heading."""
    kept = "".join(letter for letter in table.heading.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def section(table: PaperTable) -> Iterator[str]:
    """Of one table."""
    made = read_made(table.name)
    ours: Ours = {}
    yield f"## {table.heading}\n"
    yield f"Status: {status(table)}.\n"
    if commands := table.commands():
        first = [f"python scripts/papers/{table.name}.py --data DATA"] if table.prepare else []
        listed = [*first, *_which_runs(commands)] if first else commands
        yield "The paper's run:\n"
        yield "```bash\n" + "\n".join(listed) + "\n```\n"
    if made:
        ours = made.ours
        yield f"{table.about(made.size)}{_stands(made.stand_ins)} Commit {made.commit}:\n"
        yield (
            "```bash\n"
            + "\n".join([f"python scripts/papers/{table.name}.py --shared DATA", *_which_runs(made.commands)])
            + "\n```\n"
        )
    elif table.derived:
        ours = table.derived()
        yield "Ours: computed from figures of other published tables.\n"
    alike = made is None or table.compares(made.size)
    yield markdown(comparison(table.published, table.columns, ours, "", apart=alike))
    if found := distances(table.published, table.columns, ours if alike else {}):
        yield markdown(distance_table(found))
    lines = [*([table.note] if table.note else []), *(table.checks(table.published) if table.checks else [])]
    yield "\n".join(f"- {line}" for line in lines) + "\n" if lines else ""


def _stands(stand_ins: Mapping[str, str]) -> str:
    """Who judged in whose place."""
    places = {of: [judge for judge, mine in stand_ins.items() if mine == of] for of in stand_ins.values()}
    told = ", ".join(f"{of} in place of {', '.join(judges)}" for of, judges in places.items())
    once = "; its figures stand once, under the first" if any(len(judges) > 1 for judges in places.values()) else ""
    return f" Judge: {told}{once}." if told else ""


def _which_runs(commands: Sequence[str]) -> list[str]:
    """The commands of a script, below it."""
    return ["# which runs:", *commands] if commands else []


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} has {len(tables())} tables.")


if __name__ == "__main__":
    main()
