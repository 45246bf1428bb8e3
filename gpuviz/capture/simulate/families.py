"""The operators of PyTorch by what their kernels do: tables of names, and of the names of kernels."""

from __future__ import annotations

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NO_LAUNCH = _words(
    """empty empty_strided empty_like empty_permuted new_empty new_empty_strided resize_ set_ detach_ lift lift_fresh
    is_same_size _unsafe_view unsafe_split unsafe_chunk _reshape_alias squeeze_ unsqueeze_ t_ transpose_ record_stream
    _has_compatible_shallow_copy_type _assert_async _assert_tensor_metadata"""
)
"""Operators, besides views, that launch nothing."""

WRITES_ONLY = _words(
    """zeros ones full zero_ fill_ zeros_like ones_like full_like new_zeros new_ones new_full arange linspace logspace
    eye rand randn randint randperm rand_like randn_like randint_like normal_ uniform_ random_ bernoulli_ exponential_
    scalar_tensor tril_indices triu_indices"""
)
RANDOM = _words(
    """rand randn randint rand_like randn_like randint_like normal_ uniform_ random_ bernoulli_ exponential_ bernoulli
    native_dropout multinomial normal"""
)
GATHERS = _words("embedding index index_select gather take take_along_dim")
SCATTERS = _words(
    """index_put_ index_put _index_put_impl_ scatter_ scatter scatter_add_ scatter_add index_add_ index_add
    embedding_dense_backward masked_scatter_ index_copy_ index_fill_ scatter_reduce_"""
)
ROWWISE: Mapping[str, str] = {
    "_softmax": "softmax_warp_forward",
    "_log_softmax": "softmax_warp_forward",
    "_softmax_backward_data": "softmax_warp_backward",
    "_log_softmax_backward_data": "softmax_warp_backward",
    "native_layer_norm": "vectorized_layer_norm_kernel",
    "native_group_norm": "RowwiseMomentsCUDAKernel",
    "cumsum": "tensor_kernel_scan_innermost_dim",
    "cumprod": "tensor_kernel_scan_innermost_dim",
    "nll_loss_forward": "nll_loss_forward_reduce_cuda_kernel_2d",
    "nll_loss_backward": "nll_loss_backward_reduce_cuda_kernel_2d",
    "nll_loss2d_forward": "nll_loss2d_forward_kernel",
    "topk": "sbtopk::gatherTopK",
    "sort": "DeviceSegmentedRadixSort",
    "argsort": "DeviceSegmentedRadixSort",
}
SEVERAL: Mapping[str, tuple[str, ...]] = {
    "native_batch_norm": ("bn_fw_tr_1C11_kernel_NCHW",),
    "_native_batch_norm_legit": ("bn_fw_tr_1C11_kernel_NCHW",),
    "_batch_norm_with_update": ("bn_fw_tr_1C11_kernel_NCHW",),
    "cudnn_batch_norm": ("bn_fw_tr_1C11_kernel_NCHW",),
    "native_batch_norm_backward": ("bn_bw_1C11_kernel_new",),
    "batch_norm_backward": ("bn_bw_1C11_kernel_new",),
    "native_layer_norm_backward": ("layer_norm_grad_input_kernel_vectorized", "GammaBetaBackwardCUDAKernel"),
    "native_group_norm_backward": ("ComputeInternalGradientsCUDAKernel", "GammaBetaBackwardCUDAKernel"),
}
"""Operators whose kernels read and write about the same bytes each."""

REDUCTIONS = _words("sum mean prod amax amin max min argmax argmin any all std var var_mean norm linalg_vector_norm")
FUSED: Mapping[str, str] = {
    "_fused_adam_": "FusedAdamMathFunctor",
    "_fused_adamw_": "FusedAdamMathFunctor",
    "_fused_sgd_": "FusedSgdMathFunctor",
    "_fused_adagrad_": "FusedAdagradMathFunctor",
    "_amp_foreach_non_finite_check_and_unscale_": "UnscaleFunctor",
}
READS_BACK = _words("nonzero masked_select _unique2 unique_dim unique_consecutive bincount equal is_nonzero")
"""Operators whose result has a size that only the data tell: the host reads it back and waits."""
