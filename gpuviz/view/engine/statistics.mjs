// Percentiles and the histogram of single durations, with the same definitions as gpuviz/analysis.

export const HISTOGRAM_BINS = 24

/** Nearest rank: the smallest value that at least the share `p` of all values does not exceed. */
export function nearestRank(sorted, p) {
  return sorted.length === 0 ? null : sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)]
}

/** `durations` in any order; sorted in place. Numbers that do not exist (of nothing) are null. */
export function summarize(durations) {
  durations.sort()
  const count = durations.length
  let sum = 0
  for (let i = 0; i < count; i++) sum += durations[i]
  return {
    count, sum,
    mean: count ? sum / count : null,
    min: count ? durations[0] : null,
    p50: nearestRank(durations, 0.5),
    p99: nearestRank(durations, 0.99),
    max: count ? durations[count - 1] : null,
    histogram: histogramOf(durations),
  }
}

/** Counts in bins of equal width on a logarithmic axis from the shortest to just above the longest duration. */
export function histogramOf(sorted) {
  const bins = new Array(HISTOGRAM_BINS).fill(0)
  if (sorted.length === 0) return bins
  const {low, log_span} = histogramScale(sorted[0], sorted[sorted.length - 1])
  for (let i = 0; i < sorted.length; i++) {
    const place = Math.floor((HISTOGRAM_BINS * Math.log(Math.max(1, sorted[i]) / low)) / log_span)
    bins[Math.min(HISTOGRAM_BINS - 1, place)]++
  }
  return bins
}

/** Durations at the edges of bin `bin`. */
export function histogramEdges(min, max, bin) {
  const {low, log_span} = histogramScale(min, max)
  const at = (index) => low * Math.exp((log_span * index) / HISTOGRAM_BINS)
  return [at(bin), at(bin + 1)]
}

// Durations of 0 ns exist (clock granularity) and have no logarithm: they count as 1 ns.
function histogramScale(min, max) {
  const low = Math.max(1, min)
  return {low, log_span: Math.log((Math.max(1, max) * 1.0001) / low)}
}
