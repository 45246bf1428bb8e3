import assert from "node:assert/strict"
import {test} from "node:test"
import {
  bytesText, countText, durationText, makeClipper, metricText, pluralText, printable, rateText, shareText, shortName,
} from "../../../gpuviz/view/engine/text.mjs"
import {distinctShortNames, shortKernelName} from "../../../gpuviz/view/engine/kernel_names.mjs"
import {roundStep, timeTicks} from "../../../gpuviz/view/engine/axis.mjs"
import {makeRandom} from "./payloads.mjs"

test("durations have a fitting unit, and what is unknown is not 0", () => {
  assert.deepEqual([0, 999, 1000, 12340, 1e6, 259300280, 1.5e9].map(durationText),
    ["0 ns", "999 ns", "1.00 µs", "12.34 µs", "1.000 ms", "259.300 ms", "1.500 s"])
  assert.equal(durationText(-2500), "-2.50 µs")
  for (const unknown of [null, undefined, NaN]) assert.equal(durationText(unknown), "unknown")
})

test("bytes, rates, shares, counts", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 10 * 1024 ** 2, 300 * 1024 ** 3].map(bytesText),
    ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 MiB", "300 GiB"])
  assert.equal(bytesText(-1), "unknown")
  assert.equal(bytesText(null), "unknown")
  assert.equal(rateText(2e9, 1e9), "2.0 GB/s")
  assert.equal(rateText(null, 5), "unknown")
  assert.equal(rateText(5, 0), "unknown")
  assert.equal(shareText(1, 8), "12.5 %")
  assert.equal(shareText(1, 0), "unknown")
  assert.deepEqual([0, 999, 1000, 1234567].map(countText), ["0", "999", "1,000", "1,234,567"])
  assert.equal(countText(null), "unknown")
  assert.equal(pluralText(1, "note"), "1 note")
  assert.equal(pluralText(2000, "note"), "2,000 notes")
  assert.equal(metricText("launches", 2), "2 GPU activities")
  assert.equal(metricText("gpu", 2), "2 ns")
})

test("clipped text fits, ends with an ellipsis, and asks once per character", () => {
  const asked = new Map()
  const width = (character) => ({i: 3, W: 11, "…": 8})[character] ?? 6
  const clip = makeClipper((character) => {
    asked.set(character, (asked.get(character) ?? 0) + 1)
    return width(character)
  })
  const total = (text) => [...text].reduce((sum, character) => sum + width(character), 0)
  const random = makeRandom(1)
  for (let i = 0; i < 500; i++) {
    const text = Array.from({length: random(40)}, () => "iWabc::_🙂"[random(8)]).join("")
    const room = random(200)
    const clipped = clip(text, room)
    assert.ok(total(clipped) <= room || clipped === "")
    if (clipped !== text && clipped !== "") {
      assert.ok(clipped.endsWith("…"))
      assert.ok(text.startsWith(clipped.slice(0, -1)))
    }
    if (room >= 14 && total(text) <= room) assert.equal(clipped, text)
  }
  for (const [character, count] of asked) assert.equal(count, 1, character)
  assert.equal(clip("anything", 5), "")
})

test("a clipped text never ends in half a character", () => {
  const clip = makeClipper(() => 10)
  assert.equal(clip("🙂🙂🙂🙂", 30), "🙂🙂…")
})

test("kernel names get short and stay telling", () => {
  const names = {
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)": "vectorized_layer_norm_kernel",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128>(cutlass_80::Params)": "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)": "CUDAFunctor_add (vectorized_elementwise_kernel)",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::rms_norm_kernel<c10::BFloat16, 8>(long)": "vllm::rms_norm_kernel",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)": "ncclDevKernel_Generic",
    "void cut_off_kernel<float, at::native::Functor<": "cut_off_kernel",
    "<module>": "<module>",
    "triton_poi_fused_add_0": "triton_poi_fused_add_0",
    "": "",
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
  }
  for (const [long, short] of Object.entries(names)) assert.equal(shortKernelName(long), short)
  assert.equal(shortName("Memcpy HtoD (Pinned -> Device)", "memcpy"), "Copy HtoD (Pinned -> Device)")
  assert.equal(shortName("void f(int)", "python"), "void f(int)")
})

test("kernels of one short name keep what tells them apart", () => {
  const names = ["void gemm<float, 4>(int)", "void gemm<c10::Half, 4>(int)", "void other<float>(int)", `f<${"a".repeat(99)}1>`, `f<${"a".repeat(99)}2>`]
  const labels = distinctShortNames(names)
  assert.equal(labels.get(names[0]), "gemm · float")
  assert.equal(labels.get(names[1]), "gemm · c10::Half")
  assert.equal(labels.get(names[2]), undefined)
  assert.match(labels.get(names[3]), /^f · …a+1$/)
  assert.equal(new Set(names.map((name) => labels.get(name) ?? shortKernelName(name))).size, names.length)
})

test("characters that hide or turn text are made visible", () => {
  assert.equal(printable("a\u0000b\u202ec\nd"), "a·b·c·d")
  assert.equal(printable("größe 測定 🙂"), "größe 測定 🙂")
})

test("ticks are round, in the view, and their labels differ", () => {
  assert.deepEqual([1, 3, 7, 12, 90].map(roundStep), [1, 5, 10, 20, 100])
  for (const [view, width] of [[[0, 259300280], 1000], [[100.2e6, 101.4e6], 800], [[12345678900, 12345679100], 500], [[0, 20], 300], [[-5e6, 3e8], 2800]]) {
    const ticks = timeTicks(view, width)
    assert.ok(ticks.length >= 2 && ticks.length <= width / 40, `${ticks.length} ticks`)
    assert.equal(new Set(ticks.map((tick) => tick.label)).size, ticks.length)
    for (const {at} of ticks) assert.ok(at >= view[0] && at <= view[1])
  }
  assert.deepEqual(timeTicks([0, 250e6], 500).map((tick) => tick.label), ["0 ms", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms"])
  assert.deepEqual(timeTicks([5, 5], 500), [])
})
