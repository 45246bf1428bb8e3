// Numbers and names as a person reads them; gpuviz/view/wording.py says them the same way. No DOM.

const UNKNOWN_TEXT = "unknown"

export function durationText(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return UNKNOWN_TEXT
  const size = Math.abs(ns)
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`
  if (size >= 1e3) return `${(ns / 1e3).toFixed(2)} µs`
  return `${ns.toFixed(0)} ns`
}

export function bytesText(bytes) {
  if (bytes === null || bytes === undefined || bytes < 0) return UNKNOWN_TEXT
  const units = ["B", "KiB", "MiB", "GiB", "TiB"]
  let unit = 0
  let value = bytes
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return unit === 0 ? `${value} B` : `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${units[unit]}`
}

/** Bytes in so many nanoseconds, as GB/s (10^9 bytes, as vendors count). */
export function rateText(bytes, ns) {
  if (bytes === null || bytes < 0 || !ns) return UNKNOWN_TEXT
  return `${(bytes / ns).toFixed(bytes / ns >= 100 ? 0 : 1)} GB/s`
}

export function shareText(part, whole) {
  if (part === null || part === undefined || !whole) return UNKNOWN_TEXT
  return `${((100 * part) / whole).toFixed(1)} %`
}

/** Thousands apart, independent of the reader's locale, so that a page reads the same everywhere. */
export function countText(count) {
  if (count === null || count === undefined) return UNKNOWN_TEXT
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",")
}

export function pluralText(count, noun, plural = `${noun}s`) {
  return `${countText(count)} ${count === 1 ? noun : plural}`
}

/** A value of the metric: a duration, or a number of launches. */
export function metricText(metric, value) {
  return metric === "launches" ? pluralText(value, "launch", "launches") : durationText(value)
}

export const METRIC_NAMES = {gpu: "GPU time", cpu: "CPU time", launches: "Launches"}

const KNOWN_NAMESPACES = /\b(?:at|c10|at_cuda_detail|native|cuda|cub|thrust|cutlass|detail|cudnn|cublasLt|cask\w*|\(anonymous namespace\)|_GLOBAL__N__\w+)::/g

/** A kernel's name for a small box: without return type, template arguments, argument list and common namespaces. */
export function shortKernelName(name) {
  let text = withoutBrackets(name.replace(/^(?:void|int|float|double|bool)\s+/, ""), "<", ">")
  text = text.replace(KNOWN_NAMESPACES, "")
  text = withoutBrackets(text, "(", ")").replace(KNOWN_NAMESPACES, "").trim()
  return text || name
}

// Removes bracketed parts, nested ones too. A name that begins with a bracket ("<module>", "<lambda>") is kept whole,
// and so are operators such as "operator<" whose brackets do not pair.
function withoutBrackets(text, open, close) {
  let depth = 0
  let kept = ""
  for (const character of text) {
    if (character === open) depth++
    else if (character === close && depth > 0) depth--
    else if (depth === 0) kept += character
  }
  return depth === 0 && kept.trim() ? kept : text
}

/** What is written on a box of `layer`. */
export function shortName(name, layer) {
  if (layer === "kernel") return shortKernelName(name)
  if (layer === "memcpy") return name.replace(/^Memcpy\s+/, "Copy ")
  return name
}

/**
 * Makes the function clip(text, pixels) → text, cut to the width with an ellipsis, or "" where nothing would fit.
 * `measure(text)` gives pixels; it is asked once per distinct character.
 */
export function makeClipper(measure, least_pixels = 14) {
  const widths = new Map()
  const widthOf = (character) => {
    let width = widths.get(character)
    if (width === undefined) widths.set(character, (width = measure(character)))
    return width
  }
  const ellipsis = measure("…")
  return function clip(text, pixels) {
    if (pixels < least_pixels) return ""
    const characters = []
    let width = 0
    let fitting = 0
    for (const character of text) {
      width += widthOf(character)
      if (width > pixels) return fitting > 0 ? characters.slice(0, fitting).join("").trimEnd() + "…" : ""
      characters.push(character)
      if (width + ellipsis <= pixels) fitting = characters.length
    }
    return text
  }
}

/** Control and direction-changing characters made visible, so that a name cannot disguise itself or break a line. */
export function printable(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "·")
}
