// Device time and copy time: the same sums as gpuviz/analysis, in exact nanoseconds.
//
// With K, C, M the unions over one device of kernels (and graph runs), copies and fills:
// compute = |K|, hidden copy = |K ∩ C|, exposed copy = |K ∪ C| − |K|, exposed memset = |K ∪ C ∪ M| − |K ∪ C|.

import {coveredBetween, intersect, makeCover, unionOfSorted, unite, uniteAll} from "./intervals.mjs"

/** Unions of everything, made once; a window then costs a few binary searches. */
export function buildCovers(trace) {
  const devices = trace.devices.map((_, device) => deviceCovers(trace, device))
  const directions = trace.directions.map((direction, index) => directionCovers(trace, index, devices[direction.device]))
  return {devices, directions}
}

function deviceCovers(trace, device) {
  const kernel = unionOfLayers(trace, device, ["kernel", "graph_run"])
  const copy = unionOfLayers(trace, device, ["memcpy"])
  const memset = unionOfLayers(trace, device, ["memset"])
  const kernel_or_copy = unite(kernel, copy)
  const busy = unite(kernel_or_copy, memset)
  return {
    ...extentOfDevice(trace, device),
    kernel: makeCover(kernel),
    copy: makeCover(copy),
    memset: makeCover(memset),
    hidden_copy: makeCover(intersect(kernel, copy)),
    kernel_or_copy: makeCover(kernel_or_copy),
    busy: makeCover(busy),
  }
}

function rowsOfDevice(trace, device) {
  const rows = []
  for (const lane of trace.lanes) {
    if (lane.kind !== "stream" || lane.device !== device) continue
    for (let row = lane.first_row; row < lane.first_row + lane.row_count; row++) rows.push(row)
  }
  return rows
}

function unionOfLayers(trace, device, layers) {
  const wanted = layers.map((layer) => trace.layers.indexOf(layer))
  const {box_start, box_duration, box_layer, is_open, row_offset} = trace
  return uniteAll(rowsOfDevice(trace, device).map((row) => unionOfSorted((add) => {
    for (let box = row_offset[row]; box < row_offset[row + 1]; box++) {
      if (!is_open[box] && wanted.includes(box_layer[box])) add(box_start[box], box_start[box] + box_duration[box])
    }
  })))
}

function extentOfDevice(trace, device) {
  let first = Infinity
  let last = -Infinity
  for (const row of rowsOfDevice(trace, device)) {
    for (let box = trace.row_offset[row]; box < trace.row_offset[row + 1]; box++) {
      if (trace.is_open[box]) continue
      first = Math.min(first, trace.box_start[box])
      last = Math.max(last, trace.box_start[box] + trace.box_duration[box])
    }
  }
  return {first, last}
}

function directionCovers(trace, direction, device) {
  const {copies, box_start, box_duration, is_open} = trace
  const union = unionOfSorted((add) => {
    for (let index = 0; index < copies.count; index++) {
      const box = copies.box[index]
      if (copies.direction[index] === direction && !is_open[box]) add(box_start[box], box_start[box] + box_duration[box])
    }
  })
  return {union: makeCover(union), hidden: makeCover(intersect(union, device.kernel.edges))}
}

/** One row per device, in exact ns; `span_ns` null where nothing is known. */
export function deviceTime(trace, covers, window) {
  return trace.devices.map((device, index) => {
    const cover = covers.devices[index]
    const [from, to] = window ?? [cover.first, cover.last]
    // A device without any work was perhaps not recorded: its times are unknown in every window, not zero.
    if (!(cover.last >= cover.first)) return {device: index, ...device, span_ns: null}
    const part = (name) => coveredBetween(cover[name], from, to)
    const kernel_ns = part("kernel")
    const kernel_or_copy_ns = part("kernel_or_copy")
    const busy_ns = part("busy")
    return {
      device: index, ...device, span_ns: to - from, busy_ns, kernel_ns,
      copy_ns: part("copy"),
      memset_ns: part("memset"),
      hidden_copy_ns: part("hidden_copy"),
      exposed_copy_ns: kernel_or_copy_ns - kernel_ns,
      exposed_memset_ns: busy_ns - kernel_or_copy_ns,
      idle_ns: to - from - busy_ns,
    }
  })
}

/** One row per device and direction. `bytes` is null where the size of any counted copy is unknown. */
export function copyTime(trace, covers, window) {
  const [from, to] = window ?? [-Infinity, Infinity]
  const rows = trace.directions.map((direction, index) => {
    const {union, hidden} = covers.directions[index]
    const union_ns = coveredBetween(union, from, to)
    const hidden_ns = coveredBetween(hidden, from, to)
    return {
      direction: index, ...direction, count: 0, bytes: 0, known_bytes: 0, sum_ns: 0, union_ns, hidden_ns,
      exposed_ns: union_ns - hidden_ns,
    }
  })
  const {copies, box_start, box_duration, is_open} = trace
  for (let index = 0; index < copies.count; index++) {
    const box = copies.box[index]
    if (is_open[box]) continue
    const row = rows[copies.direction[index]]
    row.sum_ns += clippedDuration(box_start[box], box_duration[box], from, to)
    if (box_start[box] < from || box_start[box] >= to) continue
    row.count++
    if (copies.bytes[index] < 0) row.bytes = null
    else row.known_bytes += copies.bytes[index]
  }
  for (const row of rows) if (row.bytes !== null) row.bytes = row.known_bytes
  return rows
}

export function clippedDuration(start, duration, from, to) {
  return Math.max(0, Math.min(start + duration, to) - Math.max(start, from))
}

/** How much of one copy no kernel hides. */
export function exposureOfCopy(trace, covers, index) {
  const box = trace.copies.box[index]
  const device = covers.devices[trace.directions[trace.copies.direction[index]].device]
  const start = trace.box_start[box]
  const hidden_ns = coveredBetween(device.kernel, start, start + trace.box_duration[box])
  return {hidden_ns, exposed_ns: trace.box_duration[box] - hidden_ns}
}

/** The copy of `direction` that covers `time`, or the one whose edge is nearest within `reach`; -1 if none. */
export function copyAt(trace, direction, time, reach) {
  const {copies, box_start} = trace
  let best = -1
  let best_distance = reach
  const starts = (index) => box_start[copies.box[index]]
  let low = 0
  let high = copies.count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (starts(middle) <= time + reach) low = middle + 1
    else high = middle
  }
  // Copies of one direction can overlap, so the search walks back a bounded number of steps.
  for (let index = low - 1, steps = 0; index >= 0 && steps < 4096; index--, steps++) {
    if (copies.direction[index] !== direction) continue
    const start = starts(index)
    const end = start + trace.box_duration[copies.box[index]]
    const distance = time < start ? start - time : Math.max(0, time - end)
    if (distance <= best_distance) {
      best = index
      best_distance = distance
      if (distance === 0) break
    }
  }
  return best
}

/** Hidden and exposed share of `count` equal bins of a view, for one direction; each share is of the bin's width. */
export function copyShares(covers, direction, [from, to], count) {
  const {union, hidden} = covers.directions[direction]
  return {hidden: sharesOf(hidden, from, to, count), all: sharesOf(union, from, to, count)}
}

function sharesOf({edges, count: interval_count}, from, to, count) {
  const shares = new Float64Array(count)
  const width = (to - from) / count
  let interval = 0
  let high = interval_count
  while (interval < high) {
    const middle = (interval + high) >>> 1
    if (edges[2 * middle + 1] <= from) interval = middle + 1
    else high = middle
  }
  for (; interval < interval_count && edges[2 * interval] < to; interval++) {
    let at = Math.max(edges[2 * interval], from)
    const end = Math.min(edges[2 * interval + 1], to)
    let bin = Math.min(count - 1, Math.floor((at - from) / width))
    while (bin < count && at < end) {
      const edge = bin === count - 1 ? end : Math.min(end, from + (bin + 1) * width)
      shares[bin] += Math.max(0, edge - at) / width
      at = Math.max(at, edge)
      bin++
    }
  }
  return shares
}
