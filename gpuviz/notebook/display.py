"""Rich display of a trace in a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from gpuviz.errors import GpuvizError
from gpuviz.model import Trace
from gpuviz.view.dashboard import VIEWS
from gpuviz.view.html import output_html
from gpuviz.view.report import text_report

VIEWS_OF_CHOICE: Mapping[str, tuple[str, ...]] = {"all": VIEWS, **{view: (view,) for view in VIEWS}, "none": ()}
"""What a person types for ``--view`` → the views that are drawn."""


def show(trace: Trace) -> None:
    """Display the linked views of a trace as one output of the running cell.

    The output is HTML that stays alive in the saved notebook, with the same facts as plain text beside it. Outside a
    notebook there is nothing to display on: `GpuvizError`.
    """
    try:
        from IPython import get_ipython
    except ImportError as error:
        raise _no_notebook("IPython is not installed") from error
    if get_ipython() is None:
        raise _no_notebook("no IPython shell is running")
    publish(trace)


def publish(trace: Trace, views: tuple[str, ...] = VIEWS) -> None:
    """Send the views to the running cell; the caller knows that there is one."""
    _send(mime_bundle(trace, views))


def say(sentence: str) -> None:
    """Show a sentence below the running cell, after what the cell has printed."""
    _send({"text/plain": sentence})


def mime_bundle(trace: Trace, views: tuple[str, ...] = VIEWS) -> dict[str, str]:
    """The output's data by MIME type.

    HTML and plain text only: a widget view beside HTML would show "model not found" when the notebook is reopened.
    Without views it is the plain text.
    """
    text = {"text/plain": text_report(trace)}
    return {"text/html": output_html(trace, views), **text} if views else text


def _send(data: dict[str, str]) -> None:
    from IPython.display import publish_display_data

    publish_display_data(data)


def _no_notebook(found: str) -> GpuvizError:
    return GpuvizError(
        f"Tried to show a trace in a notebook: {found}. "
        "Use gpuviz.save_html(trace, 'page.html'), or `gpuviz view FILE` in a shell."
    )
