"""A sweep's tables and figures, from the CSV files in its folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.files import atomic_write
from ...outputs.folder import make_folder, write_table
from . import tables
from .comparison import Comparison, read_comparisons

_DPI = 150

#: Endings of each file of a report, but for averages.csv.
_ENDINGS = {
    "table": (".md", ".tex", ".csv"),
    **dict.fromkeys(("curves", "maps", "lengthscales"), (".png", ".pdf")),
}


def write_report(folder: Path) -> list[Path]:
    """Write the report of the sweep in ``folder`` to its folder ``report``.

    These are averages.csv, and for each pilot and planner (several: with their names in the
    files') table.md, .tex and .csv, and curves, maps and lengthscales as .png and .pdf.

    Returns:
        The files written.

    Raises:
        InputError: if there is no finished run, a file is missing or broken, or the folder cannot
            be written.
        ImportError: if matplotlib is not installed; the tables are written before.
    """
    comparisons = read_comparisons(folder)
    report = make_folder(folder / "report")
    rows = [row for comparison in comparisons for row in tables.average_rows(comparison)]
    write_table(report / "averages.csv", tables.AVERAGE_COLUMNS, rows)
    written = [report / "averages.csv"]
    several = len(comparisons) > 1
    suffixes = [f"-{c.pilot}-{c.planner}" if several else "" for c in comparisons]
    for comparison, suffix in zip(comparisons, suffixes, strict=True):
        written += _write_tables(report, comparison, suffix)
    if several:  # what an earlier report on one pilot and planner wrote is old
        for name, endings in _ENDINGS.items():
            for ending in endings:
                (report / f"{name}{ending}").unlink(missing_ok=True)
    # Over the whole sweep, so that a method looks the same in every figure.
    methods = dict.fromkeys(run.method for c in comparisons for run in c.runs)
    for comparison, suffix in zip(comparisons, suffixes, strict=True):
        written += _write_figures(report, comparison, suffix, list(methods))
    return written


def _write_tables(report: Path, comparison: Comparison, suffix: str) -> list[Path]:
    paths = [report / f"table{suffix}{ending}" for ending in _ENDINGS["table"]]
    for path, text in zip(paths, (tables.markdown_table, tables.latex_table), strict=False):
        with atomic_write(path) as file:
            file.write(text(comparison).encode())
    write_table(paths[-1], tables.TABLE_COLUMNS, list(tables.table_rows(comparison)))
    return paths


def _write_figures(
    report: Path, comparison: Comparison, suffix: str, methods: list[str]
) -> list[Path]:
    from .figures import draw_curves, draw_lengthscales, draw_maps, method_styles

    figures = {
        "curves": draw_curves(comparison, method_styles(methods)),
        "maps": draw_maps(comparison),
        "lengthscales": draw_lengthscales(comparison),
    }
    written = []
    for name, figure in figures.items():
        for ending in _ENDINGS[name]:
            path = report / f"{name}{suffix}{ending}"
            _save(figure, path)
            # The layout stays as it was for the first file; it takes longer than the drawing.
            figure.set_layout_engine("none")
            written.append(path)
    return written


def _save(figure: Any, path: Path) -> None:
    # Without the date, so that the same results make the same file.
    metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=_DPI, metadata=metadata)
