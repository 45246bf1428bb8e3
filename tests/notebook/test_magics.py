"""What the magics add: options, other magics beside them, help, refusals, failures; in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.kernels import Kernel

PROFILE = "%%gpuprofile --backend replay:gpu.gpuviz"
LINE = "%gpuprofile --backend replay:gpu.gpuviz"


def test_quiet_shows_nothing_and_keeps_everything(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -q -o quiet\n5")
    assert ran.kinds == ["result"]
    assert kernel.value("quiet.kernels.height") == 2
    assert kernel.value("__import__('gpuviz').history(-1) is quiet") is True


@pytest.mark.parametrize(
    ("view", "figures"),
    [("all", ["flamegraph", "timeline", "copies"]), ("copies", ["copies"]), ("flamegraph", ["flamegraph"])],
)
def test_view_leaves_figures_out(kernel: Kernel, view: str, figures: list[str]) -> None:
    (html,) = kernel.run(f"{PROFILE} --view {view}\n1").views
    found = [name for name in ("flamegraph", "timeline", "copies") if f'"name": "{name}"' in html]
    assert found == figures


def test_no_view_is_the_numbers_as_text(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} --view none\n1")
    assert ran.views == []
    (text,) = ran.sentences
    assert "compute 7.00 µs" in text


def test_copies_alone_need_copies(kernel: Kernel) -> None:
    (sentence,) = kernel.run("%%gpuprofile --backend replay:kernels.gpuviz --view copies\n1").sentences
    assert "copied nothing" in sentence


def test_a_bad_option_stops_before_the_cell_runs(kernel: Kernel) -> None:
    kernel.run("ran_anyway = False")
    ran = kernel.run("%%gpuprofile --veiw all\nran_anyway = True")
    assert (ran.status, ran.error_name) == ("error", "UsageError")
    assert "UsageError: gpuprofile: there is no option --veiw" in ran.text
    assert kernel.value("ran_anyway") is False


def test_save_writes_a_file_that_opens(kernel: Kernel, traces: Path) -> None:
    assert kernel.run(f"{PROFILE} -q --save 'with blank.gpuviz'\n1").kinds == ["result"]
    assert (traces / "with blank.gpuviz").is_file()
    assert kernel.value("__import__('gpuviz').load('with blank.gpuviz').kernels.height") == 2


def test_failures_after_the_cell_are_one_sentence(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} --save no/such/folder/x.gpuviz\n'result'")
    assert (ran.status, ran.result) == ("ok", "'result'")
    (sentence,) = ran.sentences
    assert sentence.startswith("gpuviz: In [")
    assert "no/such/folder/x.gpuviz was not written" in sentence
    assert len(ran.views) == 1


def test_failures_of_our_own_leave_their_traceback_to_status(kernel: Kernel) -> None:
    kernel.run("import gpuviz.notebook.display as shown; kept = shown.output_html; shown.output_html = None")
    ran = kernel.run(f"{PROFILE} -o kept_trace\n'result'")
    kernel.run("shown.output_html = kept")
    assert (ran.status, ran.result) == ("ok", "'result'")
    (sentence,) = ran.sentences
    assert "the views were not drawn: TypeError" in sentence
    assert kernel.value("kept_trace.kernels.height") == 2
    assert "TypeError" in kernel.run("%gpuviz status").text


def test_a_capture_that_cannot_start_leaves_the_cell_alone(kernel: Kernel, traces: Path) -> None:
    (traces / "broken.gpuviz").write_bytes(b"not a trace")
    kernel.run("broken_trace = 'before'")
    ran = kernel.run("%%gpuprofile --backend replay:broken.gpuviz -o broken_trace\n'result'")
    assert (ran.status, ran.result) == ("ok", "'result'")
    (sentence,) = ran.sentences
    assert "was not profiled" in sentence
    assert "`broken_trace` still holds what it held before" in sentence


def test_without_a_gpu_the_cell_runs_and_the_way_out_is_named(kernel: Kernel) -> None:
    ran = kernel.run("%%gpuprofile -o absent\n'result'")
    assert (ran.status, ran.result) == ("ok", "'result'")
    (sentence,) = ran.sentences
    assert "`%gpuviz simulate H100`" in sentence
    assert "`absent` was not set" in sentence
    raised = kernel.run("%%gpuprofile\n1 / 0")
    assert (raised.status, raised.error_name) == ("error", "ZeroDivisionError")


def test_without_torch_the_cell_runs_and_the_simulator_says_what_it_needs(kernel: Kernel) -> None:
    kernel.run("import sys; kept = sys.modules.get('torch'); sys.modules['torch'] = None")
    ran = kernel.run("%%gpuprofile --backend simulate\n'result'")
    turned_on = kernel.run("%gpuviz simulate T4")
    kernel.run("sys.modules.pop('torch') if kept is None else sys.modules.update(torch=kept)")
    assert (ran.status, ran.result) == ("ok", "'result'")
    assert "pip install gpuviz[torch]" in ran.sentences[0]
    assert turned_on.error_name == "UsageError"
    assert "pip install gpuviz[torch]" in turned_on.text
    assert "The simulator was not on." in kernel.run("%gpuviz simulate off").text


def test_a_cell_without_gpu_work_says_so(kernel: Kernel) -> None:
    ran = kernel.run("%%gpuprofile --backend replay:cpu.gpuviz -o idle\n1")
    (sentence,) = ran.sentences
    assert "launched no GPU work" in sentence
    assert "draws its 2 host calls" in sentence
    assert ran.views == []
    assert len(kernel.run("import gpuviz; gpuviz.show(gpuviz.history(-1))").views) == 1


@pytest.mark.parametrize("blank", ["", "\n"])
def test_time_below(kernel: Kernel, blank: str) -> None:
    ran = kernel.run(f"{PROFILE} -o timed\n{blank}%%time\nvalue = 3\nvalue * 2")
    assert ran.kinds == ["stdout", "result", "display"]
    assert "Wall time" in ran.text
    assert ran.result == "6"
    assert len(ran.views) == 1
    assert kernel.value("value, timed.kernels.height") == (3, 2)


def test_time_above(kernel: Kernel) -> None:
    ran = kernel.run(f"%%time\n{PROFILE} -o timed_above\n\nvalue = 4\nvalue * 2")
    assert ran.status == "ok", ran.traceback
    assert "Wall time" in ran.text
    assert ran.result == "8"
    assert len(ran.views) == 1
    assert kernel.value("value, timed_above.kernels.height") == (4, 2)
    assert kernel.run(f"%%time\n{PROFILE} -q\n8;").result is None


def test_an_exception_below_another_magic_shows_the_right_lines(kernel: Kernel) -> None:
    ran = kernel.run(f"%%time\n{PROFILE}\n\nx = 1\nx / 0")
    assert (ran.status, ran.error_name) == ("error", "ZeroDivisionError")
    assert "----> 4 x / 0" in ran.traceback  # of five lines, the magic above is not counted
    assert "notebook/" not in ran.traceback
    assert len(ran.views) == 1


def test_capture_below_and_above(kernel: Kernel) -> None:
    below = kernel.run(f"{PROFILE}\n%%capture seen\nprint('hidden')")
    assert below.kinds == ["display"]
    assert kernel.value("seen.stdout") == "hidden\n"
    above = kernel.run(f"%%capture seen\n{PROFILE} -o captured\nprint('hidden')")
    assert above.outputs == []
    assert kernel.value("seen.stdout, len(seen.outputs), captured.kernels.height") == ("hidden\n", 1, 2)
    assert kernel.run("%%time\n%%gpuprofile --veiw\n1").error_name == "UsageError"


@pytest.mark.parametrize(
    "cell",
    [
        f"{PROFILE} -o outer\n{LINE} 1 + 1",
        f"{PROFILE} -o outer\n{PROFILE}\n1",
        f"{PROFILE} -o outer\n%%time\n{PROFILE}\n1",
        f"{PROFILE} -o outer\nget_ipython().run_cell_magic('gpuprofile', '', '1')",
        "%%gpuprofile -o outer\n%gpuprofile 1 + 1",
    ],
)
def test_a_profile_within_a_profile_is_refused(kernel: Kernel, cell: str) -> None:
    ran = kernel.run(cell)
    assert (ran.status, ran.error_name) == ("error", "UsageError")
    assert "is being profiled" in ran.text
    assert len(kernel.run(f"{PROFILE}\n1").views) == 1


def test_a_session_of_the_user_s_own_is_left_alone(kernel: Kernel) -> None:
    kernel.run("import gpuviz; own = gpuviz.profile('replay:gpu.gpuviz').start()")
    ran = kernel.run(f"{PROFILE}\n'result'")
    assert (ran.status, ran.result) == ("ok", "'result'")
    assert "is running" in ran.sentences[0]
    assert kernel.value("own.stop().kernels.height") == 2
    within = kernel.run(f"{PROFILE}\nwith gpuviz.profile('replay:gpu.gpuviz'): pass")
    assert within.error_name == "SessionActiveError"
    assert len(within.views) == 1


def test_the_line_form_returns_the_value(kernel: Kernel) -> None:
    ran = kernel.run(f"{LINE} -o line_trace sum([1, 2])")
    assert (ran.result, len(ran.views)) == ("3", 1)
    kernel.run(f"total = {LINE} -q sum([3, 4])")
    assert kernel.value("total, line_trace.meta.title") == (7, "drawing (replayed)")
    assert kernel.run(f"{LINE} -q sum([3, 4]);").result is None
    kernel.run(f"def within(local):\n    {LINE} -q local + 1\n    return 5\nfive = within(1)")
    assert kernel.value("five") == 5
    kernel.run(f"name = 'x'\n{LINE} -q text = '{{name}} $name'")
    assert kernel.value("text") == "{name} $name"
    failed = kernel.run(f"{LINE} 1 / 0")
    assert (failed.error_name, len(failed.views)) == ("ZeroDivisionError", 1)
    assert "notebook/" not in failed.traceback


def test_help_shows_the_options(kernel: Kernel) -> None:
    for question in ("%%gpuprofile?", "%gpuprofile?", "?%%gpuprofile"):
        text = kernel.help(question)
        assert "--warmup N" in text
        assert "bind the trace to this variable" in text
    assert "simulate H100" in kernel.help("%gpuviz?")
    assert kernel.value("sorted(get_ipython().magics_manager.lsmagic()['cell']).count('gpuprofile')") == 1
    assert kernel.is_complete("%%gpuprofile\nx = 1") == "incomplete"


def test_gpuviz_line_magic(kernel: Kernel) -> None:
    status = kernel.run("%gpuviz status").text
    for expected in ("simulator  off", "`%gpuviz simulate H100`", "no profile", "polars", "gpuviz "):
        assert expected in status
    kernel.run(f"{PROFILE} -q --label 'for the table'\n1", cell_id="cell-7")
    assert "shape: (" in (kernel.run("%gpuviz history").result or "")
    kernel.run("table = %gpuviz history")
    last = kernel.value("table.tail(1).select('cell', 'label', 'busy_ns', 'backend').row(0)")
    assert last == ("cell-7", "for the table", 10_000, "replay gpu.gpuviz")
    for line in ("%gpuviz", "%gpuviz simulat H100", "%gpuviz simulate GT9", "%gpuviz status now"):
        assert kernel.run(line).error_name == "UsageError"


def test_run_line_by_line_from_code(kernel: Kernel) -> None:
    kernel.run(f"done = get_ipython().run_cell({PROFILE + ' -o from_code' + chr(10) + '11'!r})")
    assert kernel.value("done.result, from_code.kernels.height") == (11, 2)


def test_unload_takes_everything_out_again(kernel: Kernel) -> None:
    look = (
        "before = (list(ip.input_transformers_cleanup), {e: list(c) for e, c in ip.events.callbacks.items()},"
        " dict(ip.magics_manager.magics['line']), dict(ip.magics_manager.magics['cell']),"
        " dict(vars(ip.magics_manager.user_magics)), list(ip.configurables), list(ip.input_transformers_post),"
        " list(ip.ast_transformers))"
    )
    kernel.run("%unload_ext gpuviz")
    kernel.run(f"ip = get_ipython(); {look}")
    kernel.run("%load_ext gpuviz")
    kernel.run(f"{PROFILE} -q\n1")
    kernel.run("%unload_ext gpuviz")
    kernel.run(f"first = before; {look}")
    assert kernel.value("first == before") is True
    assert "not found" in kernel.run("%%gpuprofile\n1").text
    kernel.run("%load_ext gpuviz")
    assert len(kernel.run(f"{PROFILE}\n1").views) == 1
    assert kernel.run("%reload_ext gpuviz").status == "ok"
    assert len(kernel.run(f"{PROFILE}\n1").views) == 1


def test_unloaded_by_the_profiled_cell_itself(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -o last_one\n%unload_ext gpuviz\n'result'")
    assert (ran.status, ran.result) == ("ok", "'result'")
    assert kernel.value("last_one.kernels.height") == 2
    kernel.run("%load_ext gpuviz")
    assert len(kernel.run(f"{PROFILE}\n1").views) == 1
