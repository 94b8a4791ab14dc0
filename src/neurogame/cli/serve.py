"""`neurogame serve`: the page and the JSON API."""

from typing import Annotated

import typer

from neurogame.cli import common
from neurogame.extras import need
from neurogame.modeling.loading import quiet


def serve(
    model: common.Model = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 127.0.0.1 is reached from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    model_labels: common.ModelNames = None,
    device: common.Device = None,
) -> None:
    """Open the page and the JSON API in a browser's reach: predict, explain, strike out words, turn the temperature.

    Ctrl-C or SIGTERM ends it, after what it is working on.
    """
    with common.one_line("serve"):
        need("fastapi", "serve")
        need("uvicorn", "serve")
        from neurogame.nli import load
        from neurogame.serving import server

        quiet()
        server.serve(
            lambda: load(model, label_names=common.listed(model_labels), device=device),
            host,
            port,
            announce=lambda url: typer.echo(f"neurogame serve: {url} (Ctrl-C ends it)", err=True),
        )
