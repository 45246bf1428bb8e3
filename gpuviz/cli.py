"""The command line: ``gpuviz info FILE``, ``gpuviz view FILE``, ``gpuviz report FILE``.

Exit codes: 0 done; 1 a file could not be read or written (the reason is one sentence on standard error); 2 the
command itself is wrong; 3 a rule of ``--fail-on`` fired.
"""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuviz import __version__
from gpuviz.analysis.findings import RULES, findings
from gpuviz.errors import GpuvizError, TraceFileError
from gpuviz.formats import load
from gpuviz.model import Trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except GpuvizError as error:
        print(f"gpuviz: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        sys.stderr.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuviz",
        description="Explore GPU traces.",
        epilog="Exit codes: 0 done, 1 a file failed, 2 wrong usage, 3 a rule of --fail-on fired.",
    )
    parser.add_argument("--version", action="version", version=f"gpuviz {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="what a trace file holds, as text")
    info.add_argument("file", metavar="FILE", help="a PyTorch/Kineto trace (.json, .json.gz) or a .gpuviz file")
    info.add_argument("--json", action="store_true", help="the same for machines")
    info.set_defaults(command=_info)

    view = commands.add_parser("view", help="write the linked views of a trace file as one offline page")
    view.add_argument("file", metavar="FILE", help="a PyTorch/Kineto trace (.json, .json.gz) or a .gpuviz file")
    view.add_argument("-o", "--output", metavar="PAGE", help="page to write (default: FILE's name with .html, here)")
    view.add_argument("--open", action="store_true", help="open the page in the default browser")
    view.set_defaults(command=_view)

    report = commands.add_parser("report", help="what costs time and what to try, with evidence")
    report.add_argument("file", metavar="FILE", help="a PyTorch/Kineto trace (.json, .json.gz) or a .gpuviz file")
    form = report.add_mutually_exclusive_group()
    form.add_argument(
        "--markdown", dest="format", action="store_const", const="markdown", help="for an issue or a wiki"
    )
    form.add_argument("--json", dest="format", action="store_const", const="json", help="for machines")
    report.add_argument(
        "--fail-on",
        metavar="RULE",
        action="append",
        default=[],
        choices=sorted(RULES),
        help=f"exit with 3 when this rule fires; may be given more than once: {', '.join(sorted(RULES))}",
    )
    report.set_defaults(command=_report, format="text")
    return parser


def _info(options: argparse.Namespace) -> None:
    from gpuviz.view.report import text_report

    trace = load(options.file)
    if options.json:
        json.dump(_facts(trace), sys.stdout, indent=2, default=str)
        print()
    else:
        print(text_report(trace))


def _facts(trace: Trace) -> dict[str, Any]:
    from gpuviz.analysis import device_time, top_kernels

    meta = trace.meta
    return {
        "title": meta.title,
        "source": meta.source,
        "format": meta.format,
        "modelled": meta.modelled,
        "t0_unix_ns": meta.t0_unix_ns,
        "end_ns": meta.end_ns,
        "dropped_records": meta.dropped_records,
        "rows": {name: table.height for name, table in trace.tables.items()},
        "device_time": device_time(trace).to_dicts(),
        "top_kernels": top_kernels(trace, limit=20).to_dicts(),
        "diagnostics": trace.diagnostics.to_dicts(),
    }


def _view(options: argparse.Namespace) -> None:
    from gpuviz.view.html import save_html

    target = Path(options.output or _page_name(options.file))
    if target.exists() and Path(options.file).exists() and target.samefile(options.file):
        raise TraceFileError(
            f"Tried to write the page to {target}: that is the trace itself. Name another page with -o.", path=target
        )
    page = save_html(load(options.file), target)
    print(f"wrote {page} ({page.stat().st_size / 1e6:.2f} MB)")
    if options.open:
        webbrowser.open(page.resolve().as_uri())


def _report(options: argparse.Namespace) -> int:
    from gpuviz.view.report import report

    trace = load(options.file)
    print(report(trace, format=options.format))
    fired = False
    for rule, status, sentence in findings(trace).select("rule", "status", "sentence").iter_rows():
        if rule in options.fail_on and status == "abstained":
            print(f"gpuviz: {rule} cannot fail: {sentence}", file=sys.stderr)
        elif rule in options.fail_on:
            fired = True
    return 3 if fired else 0


def _page_name(file: str) -> str:
    """``trace.pt.trace.json.gz`` → ``trace.pt.trace.html``"""
    name = Path(file).name
    for suffix in (".gz", ".json", ".gpuviz"):
        name = name.removesuffix(suffix)
    return f"{name}.html"


if __name__ == "__main__":
    sys.exit(main())
