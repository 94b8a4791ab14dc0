"""`neurogame serve`: the page and the JSON API."""

from pathlib import Path

import typer

from neurogame._common import extras
from neurogame.cli import common


def serve(
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    explainer: Path | None = None,
    model_labels: str | None = None,
    device: str | None = None,
    backend: str = "torch",
    batch: int = 32,
    waiting: int = 64,
    timeout: float = 30.0,
    token_file: Path | None = None,
    allow_origin: list[str] | None = None,
    allow_host: list[str] | None = None,
    log_text: bool = False,
) -> None:
    """Serve a web page and a JSON API: predict, explain, strike out words, change the temperature.

    `/health` and `/metrics` (for Prometheus) report the state; the log, a line of JSON per request, goes to stderr.
    Ctrl-C or SIGTERM stops the server once all queued requests are answered.
    """
    extras.check("serve")
    common.check_model(model, backend, explainer)
    from neurogame.serving import settings

    token = settings.token_of(token_file)
    from neurogame.nli import load
    from neurogame.serving import server

    def say(line: str) -> None:
        typer.echo(f"neurogame serve: {line}", err=True)

    common.begin()
    server.serve(
        lambda: load(model, explainer=explainer, **common.load_options(model_labels, device, backend)),
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
