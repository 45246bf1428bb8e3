"""Rich display of a trace in a notebook."""

from __future__ import annotations

from gpuviz.errors import GpuvizError
from gpuviz.model import Trace
from gpuviz.view.html import output_html
from gpuviz.view.report import text_report


def show(trace: Trace) -> None:
    """Display the linked views of a trace as one output of the running cell.

    The output is HTML that stays alive in the saved notebook, with the same facts as plain text beside it. Outside a
    notebook there is nothing to display on: `GpuvizError`.
    """
    try:
        from IPython import get_ipython
        from IPython.display import publish_display_data
    except ImportError as error:
        raise _no_notebook("IPython is not installed") from error
    if get_ipython() is None:  # type: ignore[no-untyped-call]
        raise _no_notebook("no IPython shell is running")
    publish_display_data(mime_bundle(trace))


def mime_bundle(trace: Trace) -> dict[str, str]:
    """The output's data by MIME type.

    HTML and plain text only: a widget view beside HTML would show "model not found" when the notebook is reopened.
    """
    return {"text/html": output_html(trace), "text/plain": text_report(trace)}


def _no_notebook(found: str) -> GpuvizError:
    return GpuvizError(
        f"Tried to show a trace in a notebook: {found}. "
        "Use gpuviz.save_html(trace, 'page.html'), or `gpuviz view FILE` in a shell."
    )
