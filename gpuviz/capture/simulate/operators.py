"""PyTorch operators → the kernels that a GPU would have run for them.

An operator that only makes a view or only reserves memory runs none. The others run one kernel each, or the few that
cuDNN, cuBLAS and ATen are known to split it into. FLOPs come from `torch.utils.flop_counter` where it knows the
operator, else one per element; bytes are those of the tensors that are read and written. Names follow the families of
PyTorch's own kernels (the functor's name stands for its C++ type), so that they read as in a measured trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuviz.capture.simulate.families import (
    FUSED,
    GATHERS,
    NO_LAUNCH,
    RANDOM,
    READS_BACK,
    REDUCTIONS,
    ROWWISE,
    SCATTERS,
    SEVERAL,
    WRITES_ONLY,
)
from gpuviz.capture.simulate.gpus import Gpu
from gpuviz.capture.simulate.roofline import elementwise, product, rowwise
from gpuviz.capture.simulate.timeline import Kernel


@dataclass(frozen=True)
class Operator:
    """What is known about one overload, once and for all."""

    name: str  # as in a trace: aten::addmm
    base: str  # addmm
    launches: bool
    pointwise: bool
    reduction: bool
    namespace_is_foreign: bool  # bookkeeping, such as profiler::_record_function_enter: no work at all


_FOREIGN = ("profiler", "prim", "c10d", "_c10d_functional", "inductor")


def describe(overload: Any) -> Operator:
    """The facts about this overload."""
    name = overload._schema.name
    base = name.split("::")[1]
    tags = {str(tag).rpartition(".")[2] for tag in overload.tags}
    launches = not overload.is_view and base not in NO_LAUNCH and base != "_local_scalar_dense"
    reduction = "reduction" in tags or base in REDUCTIONS
    return Operator(name, base, launches, "pointwise" in tags, reduction, name.split("::")[0] in _FOREIGN)


@dataclass(frozen=True)
class Call:
    """One call of an operator: its arguments, and all tensors in them and in the result."""

    operator: Operator
    arguments: tuple[Any, ...]
    inputs: list[Any]
    outputs: list[Any]

    @property
    def dtype(self) -> str:
        """That of the first floating tensor, else of the first one."""
        tensors = self.inputs + self.outputs
        chosen = next((tensor for tensor in tensors if tensor.dtype.is_floating_point), tensors[0])
        return str(chosen.dtype)[6:]

    @property
    def elements(self) -> int:
        """Of the largest tensor."""
        return max((tensor.numel() for tensor in self.inputs + self.outputs), default=0)

    @property
    def written_bytes(self) -> int:
        return sum(map(bytes_of, self.outputs))

    @property
    def moved_bytes(self) -> int:
        return sum(map(bytes_of, self.inputs)) + self.written_bytes


def bytes_of(tensor: Any) -> int:
    """The bytes of its elements; an expanded dimension is read once."""
    size: int = tensor.element_size()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride or not length:
            size *= length
    return size


class OperatorModel:
    """Kernels of operators, on one GPU."""

    def __init__(self, gpu: Gpu) -> None:
        import torch

        self.gpu = gpu
        self._torch = torch
        self._products: Mapping[str, Callable[[Call], list[Kernel]]] = {
            "mm": self._matrix_product,
            "addmm": self._matrix_product,
            "bmm": self._matrix_product,
            "baddbmm": self._matrix_product,
            "_scaled_mm": self._matrix_product,
            "linear": self._matrix_product,
            "mv": self._matrix_vector,
            "dot": self._matrix_vector,
            "addmv": self._matrix_vector,
            "convolution": self._convolution,
            "convolution_backward": self._convolution_backward,
            "_scaled_dot_product_flash_attention_for_cpu": self._attention,
            "_scaled_dot_product_flash_attention_for_cpu_backward": self._attention_backward,
        }

    def kernels(self, call: Call) -> list[Kernel]:
        """What the device runs for this call; nothing for tensors without elements."""
        if not call.elements:
            return []
        operator, base = call.operator, call.operator.base
        special = self._products.get(base)
        if special is not None:
            return special(call)
        dtype = call.dtype
        if base in SEVERAL:
            size = call.moved_bytes / len(SEVERAL[base])
            rows = call.inputs[0].shape[1] if call.inputs[0].dim() > 1 else 1
            return [rowwise(self.gpu, f"{name}<{dtype}>", rows, call.elements, size, dtype) for name in SEVERAL[base]]
        if base.startswith("_foreach_") or base in FUSED:
            functor = FUSED.get(base) or base.removeprefix("_foreach_").rstrip("_")
            elements = sum(tensor.numel() for tensor in call.inputs)
            name = f"multi_tensor_apply_kernel<{functor}, {dtype}>"
            return [elementwise(self.gpu, name, elements, call.moved_bytes, dtype)]
        if base in READS_BACK:
            names = (f"cub::DeviceReduceKernel<{base}>", f"cub::DeviceSelectSweepKernel<{base}>")
            return [elementwise(self.gpu, name, call.elements, call.moved_bytes, dtype) for name in names]
        if base in ROWWISE:
            rows = max(1, call.elements // max(1, call.inputs[0].shape[-1] if call.inputs[0].dim() else 1))
            name = f"{ROWWISE[base]}<{dtype}>"
            return [rowwise(self.gpu, name, rows, call.elements, call.moved_bytes, dtype)]
        if operator.reduction:
            rows = call.outputs[0].numel() if call.outputs else 1
            name = f"reduce_kernel<512, 1, {base}, {dtype}>"
            return [rowwise(self.gpu, name, rows, call.elements, call.moved_bytes, dtype)]
        return [self._elementwise(call, dtype)]

    def _elementwise(self, call: Call, dtype: str) -> Kernel:
        base = call.operator.base
        functor = base.rstrip("_")
        elements, size = call.elements, call.moved_bytes
        name = f"vectorized_elementwise_kernel<4, {functor}, {dtype}>"
        if base in WRITES_ONLY:
            written = call.outputs or call.inputs[:1]
            elements, size = written[0].numel(), bytes_of(written[0])
            name = f"vectorized_elementwise_kernel<4, FillFunctor, {dtype}>"
        elif base in GATHERS:
            elements, size = call.outputs[0].numel(), 2 * call.written_bytes
            name = f"vectorized_gather_kernel<{functor}, {dtype}>"
        elif base in SCATTERS:
            size = 2 * sum(map(bytes_of, call.inputs[1:]))
            name = f"indexing_kernel<{functor}, {dtype}>"
        elif base == "cat":
            name = f"CatArrayBatchedCopy<{dtype}>"
        elif not call.operator.pointwise:
            name = f"{functor}_kernel<{dtype}>"
        if base in RANDOM:
            name = f"distribution_elementwise_grid_stride_kernel<{functor}, {dtype}>"
        return elementwise(self.gpu, name, elements, size, dtype)

    def _rate(self, dtype: str, operation: str) -> str:
        """float32 goes to the Tensor Cores as TF32 where PyTorch is set so (the default for convolutions only)."""
        if dtype != "float32":
            return dtype
        getter = getattr(self._torch._C, "_get_fp32_precision_getter", None)
        if getter is not None:
            fast = getter("cuda", operation) == "tf32"
        elif operation == "matmul":  # before PyTorch 2.9
            fast = self._torch._C._get_cublas_allow_tf32()
        else:
            fast = self._torch._C._get_cudnn_allow_tf32()
        return "tf32" if fast else "float32"

    def _library_name(self, what: str, rate: str) -> str:
        """As cuBLAS and cuDNN name theirs: the architecture, what it does, the precision, the tile."""
        major, minor = self.gpu.compute_capability
        short = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}.get(rate, rate)
        return f"sm{major}{minor}_xmma_{what}_{short}_tilesize128x128"

    def _matrix_product(self, call: Call) -> list[Kernel]:
        left = next(tensor for tensor in call.inputs[_bias_first(call) :] if tensor.dim() > 1)
        result = call.outputs[0]
        rate = self._rate(str(left.dtype)[6:], "matmul")
        rows, columns = result.shape[-2:] if result.dim() > 1 else (1, result.shape[-1])
        batch = result.numel() // max(1, rows * columns)
        flops = 2.0 * batch * rows * columns * left.shape[-1]
        name = self._library_name("gemm", rate)
        return [product(self.gpu, name, (batch, rows, columns), flops, call.moved_bytes, rate)]

    def _matrix_vector(self, call: Call) -> list[Kernel]:
        dtype = call.dtype
        name = f"gemv2T_kernel_val<{dtype}>" if call.operator.base != "dot" else f"dot_kernel<{dtype}>"
        rows = call.outputs[0].numel()
        return [rowwise(self.gpu, name, rows, call.elements, call.moved_bytes, dtype)]

    def _convolution(self, call: Call) -> list[Kernel]:
        from torch.utils.flop_counter import conv_flop_count

        data, weight = call.inputs[:2]
        result = call.outputs[0]
        rate = self._rate(str(data.dtype)[6:], "conv")
        flops = conv_flop_count(data.shape, weight.shape, result.shape, transposed=bool(call.arguments[6]))
        size = bytes_of(data) + bytes_of(weight) + bytes_of(result)
        shape = (1, result.numel() // max(1, result.shape[1]), result.shape[1])
        made = [product(self.gpu, self._library_name("fprop_implicit_gemm", rate), shape, flops, size, rate)]
        if len(call.inputs) > 2:  # the bias is added by a kernel of its own
            dtype = call.dtype
            name = f"elementwise_kernel<128, 2, add_bias, {dtype}>"
            made.append(elementwise(self.gpu, name, result.numel(), 2 * bytes_of(result), dtype))
        return made

    def _convolution_backward(self, call: Call) -> list[Kernel]:
        from torch.utils.flop_counter import conv_flop_count

        gradient, data, weight = call.inputs[:3]
        wanted = call.arguments[10]
        rate = self._rate(str(data.dtype)[6:], "conv")
        flops = conv_flop_count(data.shape, weight.shape, gradient.shape, transposed=bool(call.arguments[7]))
        size = bytes_of(data) + bytes_of(weight) + bytes_of(gradient)
        shape = (1, data.numel() // max(1, data.shape[1]), data.shape[1])
        kinds = [kind for kind, needed in zip(("dgrad", "wgrad"), wanted, strict=False) if needed]
        made = [
            product(self.gpu, self._library_name(f"{kind}_implicit_gemm", rate), shape, flops, size, rate)
            for kind in kinds
        ]
        if wanted[2]:
            dtype, channels = call.dtype, gradient.shape[1]
            name = f"reduce_kernel<512, 1, sum, {dtype}>"
            made.append(rowwise(self.gpu, name, channels, gradient.numel(), bytes_of(gradient), dtype))
        return made

    def _attention(self, call: Call) -> list[Kernel]:
        from torch.utils.flop_counter import sdpa_flop_count

        query, key, value = call.inputs[:3]
        flops = sdpa_flop_count(query.shape, key.shape, value.shape)
        return [self._attention_kernel(call, "fwd", query, flops)]

    def _attention_backward(self, call: Call) -> list[Kernel]:
        from torch.utils.flop_counter import sdpa_backward_flop_count

        gradient, query, key, value = call.inputs[:4]
        flops = sdpa_backward_flop_count(gradient.shape, query.shape, key.shape, value.shape)
        return [self._attention_kernel(call, "bwd", query, flops)]

    def _attention_kernel(self, call: Call, direction: str, query: Any, flops: float) -> Kernel:
        dtype = str(query.dtype)[6:]
        family = "fmha_cutlass" if dtype == "float32" else "flash"  # FlashAttention has no float32
        batch, heads, length, width = query.shape
        name = f"{family}_{direction}_kernel<{width}, 128, {dtype}>"
        rate = self._rate(dtype, "matmul")
        return product(self.gpu, name, (batch * heads, length, 1), flops, call.moved_bytes, rate)


def _bias_first(call: Call) -> int:
    """addmm, baddbmm: the matrix that is added comes first."""
    return 1 if call.operator.base in ("addmm", "baddbmm") else 0
