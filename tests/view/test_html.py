"""The HTML output as text: self-contained, hostile names escaped, nothing half-written."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

import gpuviz
from gpuviz.errors import GpuvizError, TraceFileError
from gpuviz.model import Trace
from gpuviz.notebook.display import mime_bundle, show
from gpuviz.view import library
from gpuviz.view.dashboard import subtitle
from gpuviz.view.fallback import summary_svg
from gpuviz.view.html import document_html, output_html
from gpuviz.view.report import text_report
from tests.drawing import trace_from_text

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script><!--"


def drawn(title: str = "drawing") -> Trace:
    trace = trace_from_text(
        """
        thread 1: ..A.......
        stream 7: ....AAAAA.
        stream 8: .......>>>
        A = kernel gemm
        """
    )
    names = trace.kernels.with_columns(pl.lit(title).cast(pl.Categorical).alias("name"))
    from dataclasses import replace

    return trace.replace(kernels=names, meta=replace(trace.meta, title=title))


class Elements(HTMLParser):
    """The elements of a document, and the addresses that they would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for name, value in attrs:
            if (value or "").startswith("data:image/svg+xml;base64,"):
                continue
            if name in {"src", "href", "srcset", "data"} or name.startswith("on"):
                self.fetched.append(f"{tag} {name}={value}")


def test_a_page_fetches_nothing() -> None:
    document = document_html(drawn())
    parser = Elements()
    parser.feed(document)
    assert parser.fetched == []
    assert parser.names.count("script") == 1
    assert "http://" not in re.sub(r'xmlns="http://www\.w3\.org/2000/svg"', "", document)
    assert "https://" not in document


def test_hostile_names_make_no_element() -> None:
    harmless, hostile = Elements(), Elements()
    harmless.feed(document_html(drawn()))
    hostile.feed(document_html(drawn(HOSTILE)))
    assert hostile.names == harmless.names
    assert hostile.fetched == []


def test_the_script_holds_no_text_that_could_end_it() -> None:
    script = output_html(drawn(HOSTILE)).split("<script>", 1)[1].rsplit("</script>", 1)[0]
    assert "</script" not in script.lower()
    assert "<!--" not in script


def test_two_outputs_of_one_trace_have_names_of_their_own() -> None:
    trace = drawn()
    ids = {re.match(r'<div id="([\w-]+)"', output_html(trace))[1] for _ in range(2)}  # type: ignore[index]
    assert len(ids) == 2


def test_the_picture_shows_the_busy_share_of_each_kind() -> None:
    svg = summary_svg(drawn())
    assert re.findall(r"text-anchor=\"end\" fill=\"#222\">([^<]+)", svg) == ["GPU 0 kernels", "GPU 0 copies"]
    kernels = re.findall(r'<path d="([^"]*)" fill="#EE6677"', svg)[0]
    # 10 µs are 850 px wide; the kernel runs for 5 µs from 4 µs on, at the full height of 18 px.
    assert kernels == "M450.0 22h425.0v-18.0h-425.0z"


def test_the_text_report_names_what_is_unknown() -> None:
    report = text_report(trace_from_text("thread 1: ooo\no = op aten::mm"))
    assert "No GPU was recorded; GPU times are unknown." in report


def test_the_mime_bundle_is_html_and_text_only() -> None:
    bundle = mime_bundle(drawn())
    assert set(bundle) == {"text/html", "text/plain"}
    assert "busy 6.00 µs of 6.00 µs" in bundle["text/plain"]


def test_show_outside_a_notebook_says_what_to_do_instead() -> None:
    with pytest.raises(GpuvizError, match=r"gpuviz\.save_html"):
        show(drawn())


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="Tried to write") as raised:
        gpuviz.save_html(drawn(), tmp_path / "missing" / "page.html")
    assert raised.value.path == str(tmp_path / "missing" / "page.html")
    (tmp_path / "taken.html").mkdir()
    with pytest.raises(TraceFileError):
        gpuviz.save_html(drawn(), tmp_path / "taken.html")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.html"]


def test_a_failed_page_keeps_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = gpuviz.save_html(drawn(), tmp_path / "page.html")
    before = page.read_bytes()
    monkeypatch.setattr("os.replace", _full_disk)
    with pytest.raises(TraceFileError, match="No space left"):
        gpuviz.save_html(drawn(), page)
    assert page.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_the_engine_is_joined_in_the_order_of_its_imports() -> None:
    source = library.engine_source()
    modules = re.findall(r"^// ([\w-]+\.mjs)$", source, re.MULTILINE)
    assert modules[-1] == "main.mjs"
    assert len(modules) == len(set(modules))
    assert not re.search(r"^(import|export) ", source, re.MULTILINE)


def test_an_engine_module_that_takes_another_ones_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"main.mjs": 'import {a} from "./other.mjs"\nexport function start() {}\nconst twice = 1\n'}
    texts["other.mjs"] = "export const a = 1\nconst twice = 2\n"
    monkeypatch.setattr(library, "_read", texts.__getitem__)
    with pytest.raises(GpuvizError, match="twice"):
        library.engine_source()


def test_the_subtitle_counts_devices_of_one_name() -> None:
    trace = trace_from_text("thread 1: AB\nstream 0/7: .A.\nstream 1/7: ..B\nA = kernel a\nB = kernel b")
    assert subtitle(trace).startswith("2 × GPU · 3.00 µs · 2 kernels")
    named = trace.devices.with_columns(pl.Series("name", ["NVIDIA T4", "NVIDIA A100"]))
    assert subtitle(trace.replace(devices=named)).startswith("NVIDIA T4 (GPU 0) · NVIDIA A100 (GPU 1) · ")
