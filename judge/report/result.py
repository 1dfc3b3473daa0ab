"""The result of a run as Python sees it: to look at, to plot, and to save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from judge import measure
from judge.errors import JudgeError, in_python, nearest, python_words
from judge.report.detail_tables import class_score_table
from judge.report.directory import RunDirectory
from judge.report.figures import forests
from judge.report.notes import footnotes
from judge.report.page import make_page
from judge.report.plots import style
from judge.report.saved_run import read_run
from judge.report.sections import latex_report
from judge.report.tables import result_table
from judge.report.verdicts import changes, verdicts
from judge.report.warnings import warnings
from judge.utils.outputs import OutputFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Result(measure.Result):
    """The result of :func:`judge.evaluate`.

    Attributes:
        settings: the run's settings, as ``run.yaml`` has them.
        pictures: image id -> JPEG, people hidden, of the examples.
    """

    settings: str = ""
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    # Named here, so that the page of the Python interface shows it.
    table = measure.Result.table

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader of the numbers should know: warnings first, then how the numbers were made."""
        return [python_words(str(note)) for note in (*warnings(self), *footnotes(self))]

    def by_class(self) -> pd.DataFrame:
        """Mean scores of the captions of each class, fractions, without intervals.

        The columns are captioner, metric (judge), class, images, human, generated and difference (generated - human).
        The score of conditional leakage is the gain. Metrics of tasks, with priors, or counted ones have no rows.
        """
        found = class_score_table(self)
        return pd.DataFrame(found.rows, columns=[column.heading for column in found.columns])

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read the folder of a finished run; its numbers are computed again.

        Raises:
            JudgeError: as :func:`judge.report.saved_run.read_run`.
        """
        saved = read_run(Path(folder))
        return result_of(saved.result, saved.texts[0][1], saved.pictures)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the folder that ``judge evaluate --out`` writes.

        Args:
            folder: to make.
            overwrite: replace a run that lies there.

        Raises:
            JudgeError: it cannot be written, or holds something else.
        """
        directory = RunDirectory(Path(folder), overwrite=overwrite)
        with in_python():
            directory.check()
        with directory.working():
            directory.begin()
            directory.finish(self.settings, self, self.pictures)

    def report(self, path: str | Path, *, overwrite: bool = False, examples: bool = True) -> None:
        """Write the report page, one file; without ``examples``, it quotes no captions.

        Raises:
            JudgeError: it cannot be written, or is there.
        """
        output = OutputFile(Path(path), overwrite=overwrite)
        with in_python():
            output.check()
        with output.working():
            output.write(make_page(self, [("", self.settings)], self.pictures, examples=examples).encode())

    def plot(self, metric: str | None = None) -> Figure:
        """A forest plot: the amplification of each captioner, with its interval.

        Args:
            metric: a metric of the result, by default the first.

        Raises:
            JudgeError: it has no such metric, or no value of any.
        """
        with style():
            figures = {drawn.name.removeprefix("forest-"): drawn.figure for drawn in forests(self)}
        name = next(iter(figures), "") if metric is None else metric
        if name not in figures:
            raise JudgeError(f"no value of metric '{name}' in this result", mend=nearest(name, [*figures]))
        return figures[name]

    def to_latex(self) -> str:
        """All tables as LaTeX (booktabs), with notes as comments; as ``judge report --format latex``."""
        return latex_report(self)

    def __str__(self) -> str:
        """The verdicts and the table of the terminal."""
        said = "\n".join([*(f"{head}: {line}" for head, line in verdicts(self)), *changes(self)])
        return f"{said}\n\n{self._shown().to_string(index=False)}"

    def _repr_html_(self) -> str:
        """The verdicts and the table of the terminal, for notebooks."""
        said = "".join(f"<li><b>{escape(head)}</b>: {escape(line)}</li>" for head, line in verdicts(self))
        said += "".join(f"<li>{escape(line)}</li>" for line in changes(self))
        return f"<ul>{said}</ul>{self._shown().to_html(index=False)}"

    def _shown(self) -> pd.DataFrame:
        return pd.DataFrame({column.heading: cells for column, cells in result_table(self).shown()})


def result_of(found: measure.Result, settings: str, pictures: Mapping[str, bytes]) -> Result:
    """Give a result the settings of its run and the images of its examples."""
    known = {part.name: getattr(found, part.name) for part in fields(measure.Result)}
    return Result(**known, settings=settings, pictures=pictures)
