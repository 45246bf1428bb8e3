"""A profiled cell behaves as it would without the first line; in a real kernel."""

from __future__ import annotations

from pathlib import Path

from tests.notebook.kernels import Kernel

PROFILE = "%%gpuprofile --backend replay:gpu.gpuviz"


def test_own_output_comes_first_then_one_output_with_the_views(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -o trace\nimport sys\nprint('out')\nprint('err', file=sys.stderr)\n'last'")
    assert ran.status == "ok"
    assert ran.kinds[-1] == "display"
    assert sorted(ran.kinds[:-1]) == ["result", "stderr", "stdout"]
    assert ran.result == "'last'"
    assert len(ran.views) == 1
    assert "compute 7.00 µs" in ran.outputs[-1][1]["text/plain"]
    assert kernel.value("type(trace).__name__, trace.kernels.height") == ("Trace", 2)


def test_the_last_expression_is_displayed_and_a_semicolon_silences_it(kernel: Kernel) -> None:
    assert kernel.run(f"{PROFILE}\n6 * 7").result == "42"
    assert kernel.value("_") == 42
    assert kernel.run(f"{PROFILE}\n6 * 7;").result is None
    assert kernel.run(f"{PROFILE}\nx = 6 * 7").result is None


def test_names_stay_and_what_was_typed_is_in_the_history(kernel: Kernel) -> None:
    cell = f"{PROFILE} -q\ndef double(number):\n    return 2 * number\nfour = double(2)"
    count = kernel.run(cell).execution_count
    assert kernel.value("four, double(four), double.__module__") == (4, 8, "__main__")
    assert kernel.value(f"get_ipython().history_manager.input_hist_raw[{count}]") == cell
    result = kernel.run(f"{PROFILE} -q\nfour * 10")
    assert kernel.value(f"Out[{result.execution_count}]") == 40


def test_await_works(kernel: Kernel) -> None:
    later = "import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    return 'came'"
    ran = kernel.run(f"{PROFILE}\n{later}\nawait later()")
    assert ran.status == "ok"
    assert ran.result == "'came'"
    assert len(ran.views) == 1


def test_strings_over_several_lines_are_not_indented_again(kernel: Kernel) -> None:
    kernel.run(f'{PROFILE} -q\nif True:\n    text = """one\n  two\n\tthree"""')
    assert kernel.value("text") == "one\n  two\n\tthree"


def test_future_imports_may_stand_first(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -q\nfrom __future__ import annotations\nfuture = 1")
    assert ran.status == "ok", ran.traceback


def test_an_exception_shows_what_was_recorded_and_goes_on(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -o broken\nbefore = 1\n\ndef divide():\n    return 1 / 0\n\ndivide()\nafter = 1")
    assert (ran.status, ran.error_name) == ("error", "ZeroDivisionError")
    assert ran.kinds == ["error", "display"]
    assert len(ran.views) == 1
    assert kernel.value("broken.kernels.height, before, 'after' in globals()") == (2, 1, False)


def test_tracebacks_show_the_right_lines_and_nothing_of_gpuviz(kernel: Kernel) -> None:
    body = "\n\ndef divide():\n    return 1 / 0\n\ndivide()"
    with_us = kernel.run(f"{PROFILE} -q{body}").traceback
    without = kernel.run(f"# a comment{body}").traceback
    assert "----> 6 divide()" in with_us
    assert "----> 4     return 1 / 0" in with_us
    assert "notebook/" not in with_us
    assert with_us.count("Cell In[") == without.count("Cell In[")


def test_an_interrupt_shows_what_was_recorded_and_goes_on(kernel: Kernel) -> None:
    sleep = f"{PROFILE} -o cut\nimport time\nprint('sleeping', flush=True)\ntime.sleep(60)"
    ran = kernel.run(sleep, once_printed=("sleeping", kernel.interrupt))
    assert (ran.status, ran.error_name) == ("error", "KeyboardInterrupt")
    assert len(ran.views) == 1
    assert kernel.value("cut.kernels.height") == 2


def test_an_interrupted_await_leaves_nothing_running(kernel: Kernel) -> None:
    # Many short waits: an interrupt reaches the event loop of ipykernel only when the loop wakes up.
    sleep = "import asyncio\nprint('sleeping', flush=True)\nfor _ in range(600):\n    await asyncio.sleep(0.1)"
    sleep = f"{PROFILE} -q\n{sleep}"
    ran = kernel.run(sleep, once_printed=("sleeping", kernel.interrupt))
    assert ran.status == "error"
    assert len(kernel.run(f"{PROFILE}\n1").views) == 1


def test_code_that_does_not_compile_is_as_without_us(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -o never\nx = = 1")
    assert (ran.status, ran.error_name) == ("error", "SyntaxError")
    assert ran.kinds == ["error"]
    assert "line 2" in ran.traceback
    assert kernel.value("'never' in globals()") is False


def test_a_cell_never_runs_twice(kernel: Kernel) -> None:
    kernel.run("runs = []")
    for cell in ("{0}\nruns.append(1)", "{0}\n%%time\nruns.append(1)", "%%time\n{0}\nruns.append(1)"):
        kernel.run(cell.format(f"{PROFILE} -q"))
    kernel.run(f"{PROFILE} -q\nruns.append(1)\nawait __import__('asyncio').sleep(0)")
    kernel.run(f"{PROFILE} -q\nruns.append(1)\n1 / 0")
    kernel.run(f"{PROFILE} -q --save no/such/folder/x.gpuviz\nruns.append(1)")
    assert kernel.value("len(runs)") == 6


def test_an_empty_cell_is_profiled_too(kernel: Kernel) -> None:
    for cell in (PROFILE, f"{PROFILE}\n", f"{PROFILE}\n\n# nothing"):
        ran = kernel.run(cell)
        assert ran.status == "ok"
        assert len(ran.views) == 1


def test_an_indented_cell_and_blank_lines_before_it(kernel: Kernel) -> None:
    ran = kernel.run(f"\n\n  {PROFILE}\n  for number in range(2):\n      number\n  number")
    assert ran.status == "ok"
    assert ran.result == "1"
    assert len(ran.views) == 1


def test_two_profiles_in_one_notebook_are_apart(kernel: Kernel, traces: Path) -> None:
    kernel.run(f"{PROFILE} -o one --label first\n1")
    kernel.run(f"{PROFILE} -o two --label second\n2")
    assert kernel.value("one.meta.title, two.meta.title, one is two") == ("first", "second", False)
    ids = kernel.run(f"{PROFILE}\n1").views + kernel.run(f"{PROFILE}\n1").views
    assert ids[0].split('"')[1] != ids[1].split('"')[1]


def test_input_from_the_user_still_asks_the_front_end(kernel: Kernel) -> None:
    ran = kernel.run(f"{PROFILE} -q\ninput('name?')")
    assert ran.error_name == "StdinNotImplementedError"  # this front end has no input; the cell saw that itself
