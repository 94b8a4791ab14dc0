"""`neurogame predict`: a label for every pair of a file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from neurogame.cli import common
from neurogame.modeling.loading import quiet


def predict(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV, TSV or JSONL, gzipped or not; - is stdin.")],
    model: common.Model = None,
    output: Annotated[
        Path | None,
        common.output("--output", "-o", metavar="FILE", help="A new .jsonl or .csv file, written whole or not at all."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs per forward pass.")] = 32,
    model_labels: common.ModelNames = None,
    device: common.Device = None,
    columns: common.Columns = None,
    strict: Annotated[bool, common.data("--strict", help="Fail at a malformed row instead of skipping it.")] = False,
    as_json: Annotated[
        bool,
        common.output(
            "--json", help="Print a line of JSON per pair instead of text; with -o, JSON that says how many."
        ),
    ] = False,
) -> None:
    """Label every pair of a file, in order and in constant memory; malformed rows are skipped and counted.

    To stdout go label, probability, premise and hypothesis, tab-separated. JSON lines and CSV also have all
    probabilities and the file's other columns (an id …); its own label becomes `gold`.
    """
    mapping = common.mapping(columns)
    with common.one_line("predict"):
        from neurogame import prediction
        from neurogame.nli import load

        quiet()
        prediction.check(file, output, mapping)
        nli = load(model, label_names=common.listed(model_labels), device=device)
        # a bar and lines of results would write over each other in one terminal
        with common.progress("predict", shown=output is not None or not sys.stdout.isatty()) as advance:
            done = prediction.predict_file(
                nli,
                file,
                output,
                columns=mapping,
                on_error="raise" if strict else "skip",
                batch_size=batch_size,
                as_json=as_json,
                progress=advance,
            )
        typer.echo(done.summary(), err=True)
        if as_json and output is not None:
            common.print_json(done.to_dict())
