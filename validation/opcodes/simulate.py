"""Forms in the simulator: the same patched binary, decoded in one call for all forms."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpusim import program
from gpusim.cubin.elf import INSTRUCTION_BYTES
from gpusim.errors import GpusimError
from gpusim.isa.instruction import Instruction
from gpusim.program import Kernel
from gpusim.simulate import run
from gpusim.validation.opcodes import launch
from gpusim.validation.opcodes.forms import Form
from gpusim.validation.opcodes.listing import decode
from gpusim.validation.opcodes.template import ENTRY, SLOT, Template

CHUNK = 400
#: Opcodes whose text names an address.
LABELLED = {"BRA", "BSSY", "CALL", "RET", "BRX", "WARPSYNC"}


class Runner:
    """Runs forms on one pair of template cubins. scratch: what the last form left in global memory."""

    scratch: np.ndarray

    def __init__(self, templates: dict[str, Template]) -> None:
        self.templates = templates
        self.kernels = {name: program._module(t.cubin, None, {}, {})[ENTRY] for name, t in templates.items()}

    def run(self, forms: Sequence[Form]) -> Iterator[tuple[Form, np.ndarray | None, str, str]]:
        """(form, output records, digest, error) one after another; None and a message where it is refused."""
        for start in range(0, len(forms), CHUNK):
            part = forms[start : start + CHUNK]
            decoded = iter(decode([c for f in part for c in f.code]))
            for form in part:
                instructions = [next(decoded) for _ in form.code]
                try:
                    kernel = self._kernel(form, instructions)
                    out, digest = self._launch(form, kernel)
                except GpusimError as error:
                    yield form, None, "", error.message()
                except Exception as error:  # a form the table accepts and its row cannot build: a finding
                    yield form, None, "", f"{type(error).__name__}: {error}"
                else:
                    yield form, out, digest, ""

    def _kernel(self, form: Form, instructions: Sequence[Instruction | None]) -> Kernel:
        """The template's kernel with the form in its slot."""
        template, base = self.templates[form.template], self.kernels[form.template]
        first = (template.slot - template.start) // INSTRUCTION_BYTES
        cubin = template.patched(form.code)
        if any(i is not None and i.opcode in LABELLED for i in instructions):  # targets depend on the address
            return program._module(cubin, None, {}, {})[ENTRY]
        words = list(base.instructions)
        for k in range(SLOT):
            old = words[first + k]
            new = instructions[k] if k < len(instructions) else old
            if new is None:
                raise GpusimError("nvdisasm does not know this encoding")
            words[first + k] = dataclasses.replace(new, pc=old.pc)
        kernel = dataclasses.replace(base, code=cubin[template.start : template.end])
        kernel.__dict__["instructions"] = tuple(words)
        return kernel

    def _launch(self, form: Form, kernel: Kernel) -> tuple[np.ndarray, str]:
        row = form.to_json()
        grid, block, _ = launch.shape(row)
        arguments: list[Any] = [*launch.arrays(row), *launch.scalars(row)]
        results = run(kernel, (grid, 1, 1), (block, 1, 1), arguments, jobs=1)
        self.scratch = results[3]
        return results[2], launch.digest(results[2], results[3], row)
