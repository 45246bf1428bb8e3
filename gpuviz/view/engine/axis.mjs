// Ticks of the time axis: round steps, and labels with just the digits that tell neighbours apart. Pure.

const LABEL_PIXELS = 100
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]

export function timeTicks([from, to], width) {
  const span = to - from
  if (!(span > 0)) return []
  const step = roundStep(span / Math.max(1, Math.floor(width / LABEL_PIXELS)))
  const ticks = []
  for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push({at: i * step, label: tickLabel(i * step, step, to)})
  return ticks
}

/** The smallest of 1, 2, 5 × 10^k that is at least `least`. */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)))
  for (const factor of [1, 2, 5]) if (factor * power >= least * 0.999) return factor * power
  return 10 * power
}

// One unit for the whole axis: the largest in which its right end is at least 1.
function tickLabel(time, step, to) {
  const [size, unit] = UNITS.find(([candidate]) => Math.max(Math.abs(to), step) >= candidate) ?? UNITS[3]
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9))
  return `${(time / size).toFixed(digits)} ${unit}`
}
