"""The names of common CUDA calls by CUPTI's callback id.

CUPTI's API records carry a number. A capture on a GPU asks its own libcupti for every name it meets; this table serves
where there is no libcupti: the simulator, which also looks its calls up here, and buffers that come without names. Ids
are those of CUPTI's enumerations, which only ever grow; runtime names are shown without the version at their end
(``cudaLaunchKernel_v7000``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_VERSION = re.compile(r"_v\d{4,5}$")


def _table(text: str) -> Mapping[int, str]:
    words = text.split()
    return MappingProxyType({int(number): name for number, name in zip(words[::2], words[1::2], strict=True)})


RUNTIME_CALLS = _table(
    """
    20 cudaMalloc 22 cudaFree 25 cudaMallocHost 26 cudaFreeHost 27 cudaHostAlloc 31 cudaMemcpy 32 cudaMemcpy2D
    41 cudaMemcpyAsync 44 cudaMemcpy2DAsync 47 cudaMemcpyToSymbolAsync 48 cudaMemcpyFromSymbolAsync 49 cudaMemset
    50 cudaMemset2D 51 cudaMemsetAsync 52 cudaMemset2DAsync 129 cudaStreamCreate 131 cudaStreamSynchronize
    132 cudaStreamQuery 133 cudaEventCreate 134 cudaEventCreateWithFlags 135 cudaEventRecord 136 cudaEventDestroy
    137 cudaEventSynchronize 138 cudaEventQuery 139 cudaEventElapsedTime 144 cudaMemcpy3D 145 cudaMemcpy3DAsync
    147 cudaStreamWaitEvent 152 cudaHostRegister 160 cudaMemcpyPeer 161 cudaMemcpyPeerAsync 165 cudaDeviceSynchronize
    198 cudaStreamCreateWithFlags 201 cudaStreamDestroy 202 cudaStreamCreateWithPriority 206 cudaMallocManaged
    211 cudaLaunchKernel 214 cudaLaunchKernel_ptsz 215 cudaMemcpy_ptds 225 cudaMemcpyAsync_ptsz 233 cudaMemset_ptds
    235 cudaMemsetAsync_ptsz 239 cudaStreamSynchronize_ptsz 242 cudaEventRecord_ptsz 247 cudaStreamWaitEvent_ptsz
    269 cudaLaunchCooperativeKernel 270 cudaLaunchCooperativeKernel_ptsz 284 cudaLaunchHostFunc
    310 cudaGraphInstantiate 311 cudaGraphLaunch 312 cudaGraphLaunch_ptsz 370 cudaEventRecordWithFlags
    373 cudaMallocAsync 375 cudaFreeAsync 391 cudaMallocFromPoolAsync 418 cudaGraphInstantiateWithFlags
    430 cudaLaunchKernelExC 431 cudaLaunchKernelExC_ptsz 436 cudaGraphInstantiateWithParams
    """
)
DRIVER_CALLS = _table(
    """
    17 cuCtxSynchronize 118 cuEventCreate 119 cuEventRecord 120 cuEventQuery 121 cuEventSynchronize 124 cuStreamCreate
    125 cuStreamQuery 126 cuStreamSynchronize 216 cuMemsetD8Async 218 cuMemsetD16Async 220 cuMemsetD32Async
    243 cuMemAlloc_v2 245 cuMemFree_v2 249 cuMemsetD8_v2 250 cuMemsetD16_v2 251 cuMemsetD32_v2 276 cuMemcpyHtoD_v2
    277 cuMemcpyHtoDAsync_v2 278 cuMemcpyDtoH_v2 279 cuMemcpyDtoHAsync_v2 280 cuMemcpyDtoD_v2 281 cuMemcpyDtoDAsync_v2
    294 cuMemAllocHost_v2 295 cuStreamWaitEvent 305 cuMemcpy 306 cuMemcpyAsync 307 cuLaunchKernel 318 cuMemcpyPeer
    319 cuMemcpyPeerAsync 326 cuStreamDestroy_v2 367 cuStreamCreateWithPriority 371 cuMemAllocManaged
    418 cuMemcpyAsync_ptsz 436 cuStreamWaitEvent_ptsz 440 cuStreamSynchronize_ptsz 441 cuEventRecord_ptsz
    442 cuLaunchKernel_ptsz 477 cuLaunchCooperativeKernel 478 cuLaunchCooperativeKernel_ptsz 513 cuGraphInstantiate
    514 cuGraphLaunch 515 cuGraphLaunch_ptsz 527 cuLaunchHostFunc 587 cuEventRecordWithFlags 598 cuMemAllocAsync
    600 cuMemFreeAsync 652 cuLaunchKernelEx 653 cuLaunchKernelEx_ptsz 800 cuCtxSynchronize_v2
    """
)


def shown_name(name: str) -> str:
    """The name of a call as CUPTI spells it, without the version that runtime calls carry."""
    return _VERSION.sub("", name)
