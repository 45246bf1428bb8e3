// What so many pixels can show: long boxes one by one, short ones as busy time per pixel column. Pure.
//
// Nothing is dropped: busy time and counts of boxes and columns together are those of the data in the view.

import {drawnEnd, firstBoxInView} from "./trace.mjs"

const LEAST_PIXELS = 2

/** The shortest duration drawn as a box of its own, so that at most `budget` boxes are in the view. */
export function leastDrawn(trace, view, width, budget) {
  const least = (LEAST_PIXELS * (view[1] - view[0])) / Math.max(1, width)
  const durations = []
  eachBoxInView(trace, view, (box) => {
    const duration = drawnEnd(trace, box) - trace.box_start[box]
    if (duration >= least) durations.push(duration)
  })
  if (durations.length <= budget) return least
  const sorted = Float64Array.from(durations).sort()
  // Durations are whole nanoseconds: half of one more leaves all that are equal to the limit in the columns.
  return sorted[sorted.length - budget - 1] + 0.5
}

/** Boxes of the view at least `least` long, row by row. */
export function longBoxes(trace, view, least) {
  const boxes = []
  eachBoxInView(trace, view, (box) => {
    const duration = drawnEnd(trace, box) - trace.box_start[box]
    if (duration >= least && duration > 0) boxes.push(box)
  })
  return boxes
}

function eachBoxInView(trace, [from, to], visit) {
  for (let row = 0; row < trace.row_count; row++) eachBoxOfRow(trace, row, from, to, visit)
}

function eachBoxOfRow(trace, row, from, to, visit) {
  const {box_start, box_duration, row_offset, is_open, open_of_row} = trace
  const end = row_offset[row + 1]
  const first = firstBoxInView(trace, row, from)
  for (const box of open_of_row.get(row) ?? []) if (box < first) visit(box)
  for (let box = first; box < end && box_start[box] < to; box++) {
    const reaches_in = box_start[box] + box_duration[box] > from || box_start[box] >= from || is_open[box]
    if (reaches_in) visit(box)
  }
}

/** Memory for one row of columns, used again for the next row. */
export function makeColumns(trace, count) {
  return {
    count,
    busy: new Float64Array(count),
    lit: new Float64Array(count),
    boxes: new Int32Array(count),
    layer: new Int16Array(count),
    by_layer: new Float64Array(count * trace.layers.length),
    filled: 0,
  }
}

/**
 * Busy ns, ns of lit boxes, number of boxes (by start) and the layer with most time, per column of one row, from the
 * boxes shorter than `least`. `is_lit` tells selected boxes. `columns.filled`: how many boxes went in.
 */
export function fillColumns(trace, row, view, least, is_lit, columns) {
  const [from, to] = view
  const width = (to - from) / columns.count
  const layer_count = trace.layers.length
  columns.busy.fill(0)
  columns.lit.fill(0)
  columns.boxes.fill(0)
  columns.by_layer.fill(0)
  columns.filled = 0
  eachBoxOfRow(trace, row, from, to, (box) => {
    const start = trace.box_start[box]
    const end = drawnEnd(trace, box)
    if (end - start >= least && end > start) return
    columns.filled++
    let at = Math.max(start, from)
    const stop = Math.min(end, to)
    let column = Math.min(columns.count - 1, Math.max(0, Math.floor((at - from) / width)))
    columns.boxes[column]++
    const lit = is_lit(box) ? 1 : 0
    do {
      const is_last = column === columns.count - 1
      const edge = is_last ? stop : Math.min(stop, from + (column + 1) * width)
      const part = Math.max(0, edge - at)
      columns.busy[column] += part
      columns.lit[column] += lit * part
      // Boxes without length leave a trace of a layer, too small to outvote anything that has a length.
      columns.by_layer[column * layer_count + trace.box_layer[box]] += part + 1e-6
      at = Math.max(at, edge)
      column++
    } while (at < stop && column < columns.count)
  })
  if (columns.filled) findDominantLayers(columns, layer_count)
  return columns
}

function findDominantLayers({count, by_layer, layer}, layer_count) {
  for (let column = 0; column < count; column++) {
    let best = -1
    let most = 0
    for (let candidate = 0; candidate < layer_count; candidate++) {
      const time = by_layer[column * layer_count + candidate]
      if (time > most) {
        most = time
        best = candidate
      }
    }
    layer[column] = best
  }
}

/** The box at `time` in a row, or the nearest within `reach`; -1 if there is none. */
export function boxAt(trace, row, time, reach) {
  let best = -1
  let best_distance = Infinity
  eachBoxOfRow(trace, row, time - reach, time + reach + 1, (box) => {
    const start = trace.box_start[box]
    const distance = time < start ? start - time : Math.max(0, time - drawnEnd(trace, box))
    // At equal distance the later box wins: it is the one drawn on top.
    if (distance <= reach && distance <= best_distance) {
      best = box
      best_distance = distance
    }
  })
  return best
}
