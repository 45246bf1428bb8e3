// The decoded data with accessors. Everything here is fixed for the life of the page; what changes lives in store.mjs.
//
// A box is one interval in one row of a lane. "Activity": a box in a stream lane (kernel, copy, fill, graph run).
// "Call": a box in a thread lane. Open boxes (their end was never recorded) are drawn, but are in neither index.

import {printable, shortName} from "./text.mjs"
import {distinctShortNames} from "./kernel_names.mjs"

export function createTrace({header, columns}) {
  const {meta, names, lanes, devices, directions, sources} = header
  // Boxes without a node in the call tree have a layer too, so that every box has a colour.
  const layers = [...header.layers, "range", "sync"]
  const nodes = nodeColumns(header, columns)
  const boxes = boxColumns(header, columns, layers, nodes)
  const end_ns = Math.max(1, meta.end_ns ?? 0)
  const extent = extentOfBoxes(boxes, end_ns)
  const calls = indexByNode(nodes.node_count, boxes, "thread", lanes)
  return Object.freeze({
    meta, names, layers, lanes, devices, directions, sources, end_ns, extent, ...nodes, ...boxes,
    activities: indexByNode(nodes.node_count, boxes, "stream", lanes),
    calls,
    called_layers: new Set(Array.from(calls.order).filter((box) => boxes.box_node[box] >= 0).map((box) => layers[boxes.box_layer[box]])),
    kernel_labels: kernelLabels(names, nodes, layers),
    copies: copyColumns(columns),
  })
}

/** [from, to] of what there is to see: a capture often ends long after its last event. */
function extentOfBoxes({box_count, box_start, box_duration, is_open}, end_ns) {
  let last = 0
  for (let box = 0; box < box_count; box++) {
    last = Math.max(last, is_open[box] ? end_ns : box_start[box] + box_duration[box])
  }
  return [0, last > 0 ? last : end_ns]
}

function nodeColumns({frames}, columns) {
  const {node_parent, node_last, node_frame} = columns
  const node_count = node_parent.length
  const node_depth = new Int32Array(node_count)
  const node_layer = new Uint8Array(node_count)
  for (let node = 0; node < node_count; node++) {
    if (node > 0) node_depth[node] = node_depth[node_parent[node]] + 1
    node_layer[node] = frames.layer[node_frame[node]]
  }
  return {node_count, node_parent, node_last, node_frame, node_depth, node_layer, frames}
}

function boxColumns(header, columns, layers, {node_layer}) {
  const {row_offset, box_start, box_duration, box_node, box_name, box_launch} = columns
  const row_count = row_offset.length - 1
  const box_count = box_start.length
  const row_lane = new Int32Array(row_count)
  header.lanes.forEach((lane, index) => row_lane.fill(index, lane.first_row, lane.first_row + lane.row_count))
  const box_row = new Int32Array(box_count)
  const box_layer = new Uint8Array(box_count)
  const is_open = new Uint8Array(box_count)
  const is_copy = new Uint8Array(box_count)
  const open_of_row = new Map()
  for (const box of columns.open_box) is_open[box] = 1
  for (const box of columns.copy_box) is_copy[box] = 1
  for (let row = 0; row < row_count; row++) {
    const kind = header.lanes[row_lane[row]].kind
    for (let box = row_offset[row]; box < row_offset[row + 1]; box++) {
      box_row[box] = row
      const node = box_node[box]
      if (is_open[box]) open_of_row.set(row, [...(open_of_row.get(row) ?? []), box])
      box_layer[box] = node >= 0 ? node_layer[node] : layers.indexOf(layerWithoutNode(kind, is_copy[box]))
    }
  }
  return {
    row_count, row_offset, row_lane, box_count, box_start, box_duration, box_node, box_name, box_launch, box_row,
    box_layer, is_open, open_of_row,
  }
}

function layerWithoutNode(lane_kind, is_copy) {
  if (lane_kind === "stream") return is_copy ? "memcpy" : "kernel"
  return lane_kind === "thread" ? "other" : lane_kind
}

/** Boxes of the lanes of one kind, grouped by node: those at or below `node` lie side by side (preorder ids). */
function indexByNode(node_count, boxes, kind, lanes) {
  const offset = new Int32Array(node_count + 2)
  eachClosedBox(boxes, kind, lanes, (box) => offset[boxes.box_node[box] + 2]++)
  for (let i = 1; i < offset.length; i++) offset[i] += offset[i - 1]
  const order = new Int32Array(offset[node_count + 1])
  const next = offset.slice()
  eachClosedBox(boxes, kind, lanes, (box) => { order[next[boxes.box_node[box] + 1]++] = box })
  // Boxes without a node come first, under "node -1"; offset[node + 1] is where the boxes of `node` begin.
  return {order, offset, count: order.length}
}

function eachClosedBox({row_count, row_offset, row_lane, is_open}, kind, lanes, visit) {
  for (let row = 0; row < row_count; row++) {
    if (lanes[row_lane[row]].kind !== kind) continue
    for (let box = row_offset[row]; box < row_offset[row + 1]; box++) if (!is_open[box]) visit(box)
  }
}

function copyColumns({copy_box, copy_direction, copy_bytes}) {
  const index_of_box = new Map()
  copy_box.forEach((box, index) => index_of_box.set(box, index))
  return {box: copy_box, direction: copy_direction, bytes: copy_bytes, index_of_box, count: copy_box.length}
}

/** The part of an index that belongs to the nodes first … last, as a view (no copy). */
function boxesOfNodes(index, first, last) {
  return index.order.subarray(index.offset[first + 1], index.offset[last + 2])
}

/** Indexed boxes at or below `node`. For the root that is all of them, also those without a node. */
export function boxesBelow(trace, index, node) {
  return node === 0 ? index.order : boxesOfNodes(index, node, trace.node_last[node])
}

export function boxesOfNode(index, node) {
  return boxesOfNodes(index, node, node)
}

export function nodeName(trace, node) {
  return shownName(trace, trace.frames.name[trace.node_frame[node]])
}

function shownName({names}, index) {
  const name = names[index] ?? ""
  return name.trim() === "" ? "(no name)" : name
}

/** What is written on a small box: kernels whose short names would be the same keep what tells them apart. */
export function shortLabel(trace, name, layer) {
  return layer === "kernel" ? trace.kernel_labels.get(name) ?? shortName(name, layer) : shortName(name, layer)
}

function kernelLabels(names, {node_count, node_layer, node_frame, frames}, layers) {
  const kernel = layers.indexOf("kernel")
  const used = new Set()
  for (let node = 0; node < node_count; node++) if (node_layer[node] === kernel) used.add(frames.name[node_frame[node]])
  return distinctShortNames([...used].map((index) => printable(names[index] ?? "")))
}

/** A node's name as it is shown. */
export function frameLabel(trace, node) {
  return node === 0 ? "all" : printable(nodeName(trace, node))
}

export function layerOfNode(trace, node) {
  return trace.layers[trace.node_layer[node]]
}

export function boxName(trace, box) {
  const node = trace.box_node[box]
  if (node >= 0) return nodeName(trace, node)
  return trace.box_name[box] >= 0 ? shownName(trace, trace.box_name[box]) : "unknown"
}

export function layerOfBox(trace, box) {
  return trace.layers[trace.box_layer[box]]
}

export function laneOfBox(trace, box) {
  return trace.lanes[trace.row_lane[trace.box_row[box]]]
}

export function isActivity(trace, box) {
  return laneOfBox(trace, box).kind === "stream"
}

/** Where a node's source is: "train.py:12", "Cell 3:4", or null where it is not known. */
export function placeOfNode(trace, node) {
  const frame = trace.node_frame[node]
  const line = trace.frames.line[frame]
  const cell = trace.frames.cell[frame]
  const file = trace.frames.file[frame]
  let place = null
  if (cell >= 0 && trace.sources[cell]) place = trace.sources[cell].label
  else if (file >= 0) place = trace.names[file]
  if (place === null) return null
  return line > 0 ? `${place}:${line}` : place
}

/** The nodes from the root to `node`, both included. */
export function pathTo(trace, node) {
  const path = []
  for (let at = node; at >= 0; at = trace.node_parent[at]) path.push(at)
  return path.reverse()
}

/** Index of the first value in values[low, high) that is at least `wanted`. */
function lowerBound(values, low, high, wanted) {
  while (low < high) {
    const middle = (low + high) >>> 1
    if (values[middle] < wanted) low = middle + 1
    else high = middle
  }
  return low
}

// Rows do not overlap, but host calls may bleed into each other by less than a microsecond: two steps back are enough.
const STEPS_BACK = 2

/** The first box of a row that can reach into a view that begins at `time`. */
export function firstBoxInView(trace, row, time) {
  const begin = trace.row_offset[row]
  const box = lowerBound(trace.box_start, begin, trace.row_offset[row + 1], time)
  return Math.max(begin, box - STEPS_BACK)
}

/** Where the drawing of a box ends: an open box runs to the end of the trace. */
export function drawnEnd(trace, box) {
  return trace.is_open[box] ? Math.max(trace.end_ns, trace.box_start[box]) : trace.box_start[box] + trace.box_duration[box]
}
