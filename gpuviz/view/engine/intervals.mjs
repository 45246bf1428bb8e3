// Sets of time as sorted, non-overlapping intervals: a flat Float64Array [start, end, start, end, …].

/** Intervals sorted by start → their union. `visit(add)` calls add(start, end) in order of start. */
export function unionOfSorted(visit) {
  const edges = []
  visit((start, end) => {
    if (end <= start) return
    const last = edges.length - 1
    if (last > 0 && start <= edges[last]) {
      if (end > edges[last]) edges[last] = end
    } else {
      edges.push(start, end)
    }
  })
  return Float64Array.from(edges)
}

/** The union of two sets. */
export function unite(a, b) {
  if (a.length === 0) return b
  if (b.length === 0) return a
  return unionOfSorted((add) => {
    let i = 0
    let j = 0
    while (i < a.length || j < b.length) {
      if (j >= b.length || (i < a.length && a[i] <= b[j])) {
        add(a[i], a[i + 1])
        i += 2
      } else {
        add(b[j], b[j + 1])
        j += 2
      }
    }
  })
}

/** The union of many sets, two by two, so that the work is n log k. */
export function uniteAll(sets) {
  if (sets.length === 0) return new Float64Array(0)
  if (sets.length === 1) return sets[0]
  const middle = sets.length >> 1
  return unite(uniteAll(sets.slice(0, middle)), uniteAll(sets.slice(middle)))
}

export function intersect(a, b) {
  const edges = []
  let i = 0
  let j = 0
  while (i < a.length && j < b.length) {
    const start = Math.max(a[i], b[j])
    const end = Math.min(a[i + 1], b[j + 1])
    if (start < end) edges.push(start, end)
    if (a[i + 1] < b[j + 1]) i += 2
    else j += 2
  }
  return Float64Array.from(edges)
}

/** A set prepared for many questions: `before[k]` is the length of its first k intervals. */
export function makeCover(edges) {
  const count = edges.length / 2
  const before = new Float64Array(count + 1)
  for (let k = 0; k < count; k++) before[k + 1] = before[k] + edges[2 * k + 1] - edges[2 * k]
  return {edges, before, count, length: before[count]}
}

/** How much of the set lies in [from, to). */
export function coveredBetween(cover, from, to) {
  return to > from ? coveredBefore(cover, to) - coveredBefore(cover, from) : 0
}

function coveredBefore({edges, before, count}, time) {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (edges[2 * middle] < time) low = middle + 1
    else high = middle
  }
  if (low === 0) return 0
  const last = low - 1
  return before[last] + Math.min(edges[2 * last + 1], time) - edges[2 * last]
}
