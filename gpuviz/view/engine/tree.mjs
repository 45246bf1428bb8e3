// The call tree for one metric and one window: sums per node, places for the flamegraph, search, statistics.
//
// Nodes are numbered in preorder and parents come first, so a sum over subtrees is one backward pass.

import {boxesBelow, boxesOfNode, layerOfNode} from "./trace.mjs"
import {clippedDuration} from "./sums.mjs"
import {summarize} from "./statistics.mjs"

/** Layers that only group calls: "how often did it run" has no answer. */
const NOT_CALLS = ["root", "group", "cell", "line"]

/** Layers that a capture may know from call stacks alone, without the time of each call. */
const MAYBE_UNRECORDED = ["python", "module"]

const GPU_LAYERS = ["kernel", "memcpy", "memset", "graph_run"]

export const METRICS = ["gpu", "cpu", "launches"]

/** Sums per node: {inclusive, exclusive, total}. `window` is null or [from, to) in ns. */
export function aggregate(trace, metric, window) {
  const range = window ?? [-Infinity, Infinity]
  const own = sumsOfOwnBoxes(trace, metric, range)
  const sums = metric === "cpu" ? includeCallers(trace, own, range) : includeBelow(trace, own)
  return {metric, window, total: sums.inclusive[0], ...sums}
}

function sumsOfOwnBoxes(trace, metric, [from, to]) {
  const {box_start, box_duration, box_node} = trace
  const own = new Float64Array(trace.node_count)
  const {order} = metric === "cpu" ? trace.calls : trace.activities
  for (let i = 0; i < order.length; i++) {
    const box = order[i]
    // Work that belongs to no node still belongs to the trace: the root has it.
    const node = Math.max(0, box_node[box])
    const start = box_start[box]
    if (metric === "launches") own[node] += start >= from && start < to ? 1 : 0
    else own[node] += clippedDuration(start, box_duration[box], from, to)
  }
  return own
}

function includeBelow({node_count, node_parent}, own) {
  const inclusive = own.slice()
  for (let node = node_count - 1; node > 0; node--) inclusive[node_parent[node]] += inclusive[node]
  return {inclusive, exclusive: own}
}

// A call's interval contains its callees, so its own sum is already inclusive. Nodes without a call of their own in the
// window (the root, cells, lines) take the sum of their children.
function includeCallers(trace, own, window) {
  const {node_count, node_parent} = trace
  const has_calls = nodesWithCalls(trace, window)
  const inclusive = own.slice()
  const below = new Float64Array(node_count)
  const exclusive = new Float64Array(node_count)
  for (let node = node_count - 1; node >= 0; node--) {
    if (!has_calls[node]) inclusive[node] = below[node]
    exclusive[node] = Math.max(0, inclusive[node] - below[node])
    if (node > 0) below[node_parent[node]] += inclusive[node]
  }
  return {inclusive, exclusive}
}

function nodesWithCalls({node_count, calls, box_node, box_start, box_duration}, [from, to]) {
  const has_calls = new Uint8Array(node_count)
  for (const box of calls.order) {
    const start = box_start[box]
    if (start < to && (start + box_duration[box] > from || start >= from)) has_calls[box_node[box]] = 1
  }
  return has_calls
}

/** Left edge of every node in units of the metric; children lie side by side from their parent's left edge. */
export function layoutTree({node_count, node_parent}, inclusive) {
  const left = new Float64Array(node_count)
  const next = new Float64Array(node_count)
  for (let node = 1; node < node_count; node++) {
    const parent = node_parent[node]
    left[node] = next[parent]
    next[parent] += inclusive[node]
    next[node] = left[node]
  }
  return left
}

/** Per node 1 where it or any of its callers is marked. */
export function spreadDown({node_count, node_parent}, marks) {
  const spread = marks.slice()
  for (let node = 1; node < node_count; node++) if (spread[node_parent[node]]) spread[node] = 1
  return spread
}

/** The sum over matching nodes; a match below another match is already in it and is not counted again. */
export function matchedTotal(trace, inclusive, matches) {
  let total = 0
  for (let node = 0; node < trace.node_count; node++) {
    if (!matches[node]) continue
    total += inclusive[node]
    node = trace.node_last[node]
  }
  return total
}

/** Numbers of one node: sums, calls, GPU activities, and the distribution of single durations. */
export function statisticsOfNode(trace, tree, node) {
  const window = tree.window ?? [-Infinity, Infinity]
  const activities = durationsIn(trace, boxesBelow(trace, trace.activities, node), window)
  const own_calls = boxesOfNode(trace.calls, node)
  const is_activity = GPU_LAYERS.includes(layerOfNode(trace, node))
  const is_cpu = tree.metric === "cpu"
  const calls = durationsIn(trace, is_activity && !is_cpu ? boxesOfNode(trace.activities, node) : own_calls, window)
  const is_call = !NOT_CALLS.includes(layerOfNode(trace, node)) && !(is_cpu && is_activity) && !isUnrecorded(trace, node)
  return {
    node,
    inclusive: tree.inclusive[node],
    exclusive: tree.exclusive[node],
    calls: is_call ? calls.length : null,
    activities: activities.length,
    ...summarize(is_cpu ? calls : activities),
  }
}

/** Whether the trace holds no call of the node's layer at all: then how often it ran is unknown, not 0. */
export function isUnrecorded(trace, node) {
  return MAYBE_UNRECORDED.includes(layerOfNode(trace, node)) && !trace.called_layers.has(layerOfNode(trace, node))
}

/** Whole durations of the boxes that start in the window. */
export function durationsIn({box_start, box_duration}, boxes, [from, to]) {
  const durations = new Float64Array(boxes.length)
  let count = 0
  for (let i = 0; i < boxes.length; i++) {
    const start = box_start[boxes[i]]
    if (start >= from && start < to) durations[count++] = box_duration[boxes[i]]
  }
  return durations.slice(0, count)
}
