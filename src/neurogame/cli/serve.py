"""`neurogame serve`: the page and the JSON API."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from neurogame import extras
from neurogame.cli import common

limits, access = (partial(typer.Option, rich_help_panel=panel) for panel in ("Load", "Access and log"))


def serve(
    model: common.Model = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 127.0.0.1 is reached from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    explainer: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="What `neurogame ground` made for this model; for single texts, /explain takes `text`.",
        ),
    ] = None,
    model_labels: common.ModelNames = None,
    device: common.Device = None,
    backend: common.Backend = "torch",
    batch: Annotated[
        int, limits(min=1, help="Pairs per forward pass at most: requests that wait are answered together.")
    ] = 32,
    waiting: Annotated[int, limits(min=1, help="Requests that may wait; the next one is answered 503.")] = 64,
    timeout: Annotated[
        float, limits(min=0.1, metavar="SECONDS", help="A request that has not begun by then is answered 503.")
    ] = 30.0,
    token_file: Annotated[
        Path | None,
        access(
            metavar="FILE",
            help="Answer only requests with the token in this file; by default that in $NEUROGAME_TOKEN, if any.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        access(metavar="ORIGIN", help="Let pages of another site ask, as in https://example.org; may be repeated."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        access(
            metavar="NAME",
            help="Answer under this name too, where a proxy passes it on; on a loopback address only the names of "
            "that are taken; may be repeated.",
        ),
    ] = None,
    log_text: Annotated[
        bool, access("--log-text", help="Log what was asked; without it no text of a user is kept anywhere.")
    ] = False,
) -> None:
    """Serve a web page and a JSON API: predict, explain, strike out words, change the temperature.

    `/health` and `/metrics` (for Prometheus) report the state; the log, a line of JSON per request, goes to stderr.
    Ctrl-C or SIGTERM stops the server once all queued requests are answered.
    """
    with common.one_line("serve"):
        extras.check("serve")
        common.check_model(model, backend)
        common.check_explainer(explainer)
        from neurogame.serving import settings

        token = settings.token_of(token_file)
        from neurogame.nli import load
        from neurogame.serving import server

        def say(line: str) -> None:
            typer.echo(f"neurogame serve: {line}", err=True)

        common.begin()
        server.serve(
            lambda: load(model, explainer=explainer, **common.opening(model_labels, device, backend)),
            host,
            port,
            announce=lambda url: say(f"{url} (Ctrl-C ends it)"),
            warn=say,
            batch=batch,
            waiting=waiting,
            timeout=timeout,
            token=token,
            origins=tuple(allow_origin or ()),
            hosts=tuple(allow_host or ()),
            log_text=log_text,
        )
