// Numbers and names as a person reads them; gpuviz/view/wording.py says them the same way. No DOM.

import {shortKernelName} from "./kernel_names.mjs"

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

/** A value of the metric: a duration, or a number of GPU activities. */
export function metricText(metric, value) {
  return metric === "launches" ? pluralText(value, "GPU activity", "GPU activities") : durationText(value)
}

export const METRIC_NAMES = {gpu: "GPU time", cpu: "CPU time", launches: "GPU activities"}
/** The same within a sentence. */
export const METRIC_NOUNS = {gpu: "GPU time", cpu: "CPU time", launches: "GPU activities"}

/** A value in a table whose heading already says what is counted. */
export function plainMetricText(metric, value) {
  return metric === "launches" ? countText(value) : durationText(value)
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
