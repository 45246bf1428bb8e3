"""What ``%load_ext gpuviz`` brings: ``%%gpuprofile``, ``%gpuprofile`` and ``%gpuviz``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import needs_local_scope, no_var_expand

from gpuviz.capture import simulate
from gpuviz.capture.session import use_cells
from gpuviz.errors import GpuvizError
from gpuviz.notebook.cells import ExecutedCells
from gpuviz.notebook.execution import run_body, run_line
from gpuviz.notebook.history import history
from gpuviz.notebook.hooks import CellHooks, RunningCell
from gpuviz.notebook.options import parse_options
from gpuviz.notebook.profiles import Profiler
from gpuviz.notebook.status import status_text
from gpuviz.notebook.transformer import profile_transformer

_ABSENT = object()


class Extension:
    """Everything that gpuviz puts into a shell, and how it comes out again."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cells = ExecutedCells(shell)
        self.profiler = Profiler(shell, self.cells)
        self.hooks = CellHooks(shell, self.cells, self.profiler)
        self._transformer = profile_transformer(self.hooks.is_nested)
        self._events: dict[str, Callable[..., None]] = {
            "pre_run_cell": self.hooks.pre_run_cell,
            "post_run_cell": self.hooks.post_run_cell,
        }
        self._replaced: list[tuple[Any, str, Any]] = []
        self._simulator: simulate.Simulator | None = None

    def install(self) -> None:
        """Put the transformer, the hooks and the magics into the shell."""
        self.shell.input_transformers_cleanup.append(self._transformer)
        for event, function in self._events.items():
            self.shell.events.register(event, function)
        gpuprofile, gpuviz = _magics(self)
        self._put_magic("line_cell", gpuprofile)
        self._put_magic("line", gpuviz)
        use_cells(self.cells.cell_of)

    def remove(self) -> None:
        """Take them out, and leave the shell as it was found."""
        self.hooks.end_all()
        use_cells(None)
        if self._simulator is not None:
            self._simulator.uninstall()
        if self._transformer in self.shell.input_transformers_cleanup:
            self.shell.input_transformers_cleanup.remove(self._transformer)
        for event, function in self._events.items():
            if function in self.shell.events.callbacks[event]:
                self.shell.events.unregister(event, function)
        for place, name, before in reversed(self._replaced):
            if before is _ABSENT:
                place.pop(name, None)
            else:
                place[name] = before
        self._replaced.clear()

    def simulate(self, choice: str) -> str:
        """Turn the simulator on or off, and say what is now so."""
        running = simulate.active()
        if choice.lower() == "off":
            if running is None:
                return "The simulator was not on."
            running.uninstall()
            return f"Off: {running.description}."
        if running is None or simulate.gpu_named(choice) != running.gpu:
            running = self._simulator = simulate.Simulator(choice)
            running.install()
        return f"On in this kernel: {running.description}. `%gpuviz simulate off` turns it off."

    def _put_magic(self, kind: str, function: Callable[..., Any]) -> None:
        manager = self.shell.magics_manager
        name = function.__name__
        # IPython has no way to take a magic back; these are the places where registering it leaves traces.
        for place in (manager.magics["line"], manager.magics["cell"], vars(manager.user_magics)):
            self._replaced.append((place, name, place.get(name, _ABSENT)))
        self.shell.register_magic_function(function, kind, name)


def _magics(extension: Extension) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two magics as IPython wants them: functions, whose docstring is the help."""
    shell, cells, profiler = extension.shell, extension.cells, extension.profiler

    def gpuprofile(line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Profile the GPU work of a cell, or of an expression, and show where its time went.

        ::

            %%gpuprofile [-o NAME] [-q] [--view VIEW] [--backend BACKEND]
                         [--steps N [--warmup N]] [--label TEXT] [--save FILE]
            code of the cell

            %gpuprofile [the same options] EXPR

        The cell runs as it would without the first line: `await`, the display of its last expression, its tracebacks,
        its interruption and Run All all stay as they are. Its own output comes first, then the linked views. When it
        raises an exception, what was recorded until then is shown. ``%gpuprofile`` returns the value of EXPR.

        Options
        -------
        -o NAME            bind the trace to this variable: Polars tables such as ``NAME.kernels``
        -q                 show no views; the trace is kept all the same
        --view VIEW        all (default), flamegraph, timeline, copies, or none: the numbers as text
        --backend BACKEND  auto (default): the simulator, if ``%gpuviz simulate`` has turned it on
                           simulate[:GPU]: the simulator for this cell only, as in simulate:T4
                           replay:FILE: the cell runs, and a saved trace stands for its own
        --steps N          keep N steps; ``gpuviz.step()`` ends one
        --warmup N         leave out as many steps before them
        --label TEXT       a title for the views, and for the history
        --save FILE        write the trace to a .gpuviz file

        Quote a TEXT or FILE with blanks. An EXPR that begins with a minus stands behind ``--``. Nothing in the line is
        expanded: ``{x}`` and ``$x`` stay as they are.

        Other cell magics may stand below or above the line, as ``%%time`` may. Above it they run the code themselves,
        and what they cannot do (``%%time`` knows no `await`) is impossible then too.

        ``gpuviz.history()`` lists all profiles of this kernel, and ``gpuviz.history(-1)`` is the trace of the last.

        Examples
        --------
        ::

            %load_ext gpuviz
            %gpuviz simulate H100      # without a GPU: run on the CPU, model the times

            %%gpuprofile -o trace
            for batch in loader:
                loss = model(batch.to("cuda")).mean()
                loss.backward()
        """
        __tracebackhide__ = True
        if profiler.running is not None:
            raise UsageError(
                f"gpuprofile: {profiler.running.what} is being profiled, and there is no profile within a profile. "
                "Take one of the two away."
            )
        options = parse_options(line, line_magic=cell is None)
        current = extension.hooks.current() or RunningCell(None, None, shell.execution_count, None)
        what = "`%gpuprofile` in " if cell is None else ""
        profile = profiler.begin(
            options,
            what=f"{what}In [{current.execution_count}]",
            cell=current.jupyter_cell_id,
            execution_count=current.execution_count,
        )
        try:
            if cell is None:
                return run_line(
                    shell, cells, current, options.expression, shell.user_ns if local_ns is None else local_ns
                )
            return run_body(shell, cells, current, line, cell)
        finally:
            profiler.end(profile)

    def gpuviz(line: str) -> Any:
        """Set up gpuviz, and ask it about itself.

        ::

            %gpuviz simulate H100   model an H100 (or T4) while this kernel runs PyTorch on the CPU
            %gpuviz simulate off    everything as it was; %unload_ext gpuviz does so too
            %gpuviz status          what is on, what a profile would use, versions
            %gpuviz history         the profiles of this kernel, as a table

        Turn the simulator on before the cells that set up the model: ``torch.cuda.is_available()`` is then True,
        tensors and models move to ``"cuda"``, values are those of the CPU, and the times of GPU work are computed from
        the data sheet of the GPU. Whatever comes from it says *modelled*.
        """
        __tracebackhide__ = True
        words = line.split()
        if words == ["history"]:
            return history()
        if words == ["status"]:
            print(status_text(profiler))
            return None
        if len(words) == 2 and words[0] == "simulate":
            try:
                print(extension.simulate(words[1]))
            except GpuvizError as error:
                raise UsageError(f"gpuviz: {error}") from error
            return None
        raise UsageError(
            f"gpuviz: {line.strip()!r} is not something that it does. It does `simulate H100`, `simulate T4`, "
            "`simulate off`, `status` and `history`; `%gpuviz?` explains them."
        )

    return needs_local_scope(no_var_expand(gpuprofile)), no_var_expand(gpuviz)


_extension: Extension | None = None


def load_ipython_extension(shell: Any) -> None:
    """Put gpuviz into the shell."""
    global _extension
    if _extension is not None:
        if _extension.shell is shell:
            return
        _extension.remove()
    _extension = Extension(shell)
    _extension.install()


def unload_ipython_extension(shell: Any) -> None:
    """Take gpuviz out of the shell. The history stays."""
    global _extension
    if _extension is not None:
        _extension.remove()
        _extension = None
