"""Random programs: functions that call each other, generators, exceptions, loops, classes, comprehensions."""

from __future__ import annotations

from random import Random

FUNCTIONS = 5


class Program:
    """Text of a cell. Every function may only call those with a higher number, so that it ends."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        for number in reversed(range(FUNCTIONS)):
            is_generator = self.random.random() < 0.4
            self.lines.append(f"def {'g' if is_generator else 'f'}{number}(x):")
            if is_generator:
                self.lines.append("    yield x")
            self.block(1, number, is_generator, 3)
            self.lines.append("    return x")
        self.kinds = {line[4:6] for line in self.lines if line.startswith("def ")}
        self.lines += ["x = 0", "try:"]
        self.block(1, -1, False, 4)
        self.lines += ["    x += 1", "except ValueError as error:", "    x = str(error)", "x = 1"]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def block(self, depth: int, number: int, is_generator: bool, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(depth, number, is_generator)

    def callee(self, number: int) -> tuple[str, bool] | None:
        defined = [line[4:6] for line in self.lines if line.startswith("def ")]
        candidates = [name for name in defined if int(name[1]) > number]
        if not candidates:
            return None
        name = self.random.choice(candidates)
        return name, name[0] == "g"

    def statement(self, depth: int, number: int, is_generator: bool) -> None:
        pad = "    " * depth
        choices = ["assign", "call", "call", "if", "for", "try", "raise", "with", "lambda", "list", "class", "nested"]
        if is_generator:
            choices += ["yield", "yield", "yield from"]
        kind = self.random.choice(choices) if depth < 4 else "assign"
        write = self.lines.append
        callee = self.callee(number)
        if kind in ("call", "yield from") and callee is None:
            kind = "assign"
        if kind == "assign":
            write(f"{pad}x = [str(x)[:20], {depth}]")
        elif kind == "call" and callee is not None:
            name, generator = callee
            if not generator:
                write(f"{pad}x = {name}(x)")
            elif self.random.random() < 0.5:
                write(f"{pad}for x in {name}(x):")
                self.block(depth + 1, number, is_generator, 2)
            else:
                write(f"{pad}x = next({name}(x))")
        elif kind == "yield from" and callee is not None:
            name, generator = callee
            write(f"{pad}yield from {name}(x)" if generator else f"{pad}yield {name}(x)")
        elif kind == "yield":
            write(f"{pad}yield x")
        elif kind == "if":
            write(f"{pad}if len(str(x)) % 2:")
            self.block(depth + 1, number, is_generator, 2)
            write(f"{pad}else:")
            self.block(depth + 1, number, is_generator, 2)
        elif kind == "for":
            self.loops += 1
            write(f"{pad}for i{self.loops} in range({self.random.randint(0, 3)}):")
            self.block(depth + 1, number, is_generator, 2)
        elif kind == "try":
            write(f"{pad}try:")
            self.block(depth + 1, number, is_generator, 3)
            if self.random.random() < 0.5:
                write(f"{pad}    raise ValueError('inner')")
            write(f"{pad}except ValueError:")
            self.block(depth + 1, number, is_generator, 2)
            if self.random.random() < 0.5:
                write(f"{pad}finally:")
                self.block(depth + 1, number, False, 2)
        elif kind == "raise":
            write(f"{pad}if len(str(x)) % 5 == 0:")
            write(f"{pad}    raise ValueError('outer')")
        elif kind == "with":
            write(f"{pad}with suppress(ValueError):")
            self.block(depth + 1, number, is_generator, 2)
        elif kind == "lambda":
            write(f"{pad}x = (lambda y: [y,\n{pad}    len(str(y))])(x)")
        elif kind == "list":
            write(f"{pad}x = sum(len(str(y)) for y in [x, 2])")
        elif kind == "class":
            write(f"{pad}class C:")
            write(f"{pad}    y = x")
            write(f"{pad}    def __repr__(self):")
            write(f"{pad}        return 'C'")
            write(f"{pad}x = str(C())")
        elif kind == "nested":
            write(f"{pad}def h(y, depth={self.random.randint(0, 3)}):")
            write(f"{pad}    if depth:")
            write(f"{pad}        return h(y, depth - 1)")
            write(f"{pad}    return y")
            write(f"{pad}x = h(x)")
