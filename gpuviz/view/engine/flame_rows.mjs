// Which row of the flamegraph each frame is drawn in. Pure.
//
// Two things keep deep Python stacks readable. Above the frame that the graph is zoomed to, all callers share one row.
// Below it, a run of Python frames that each do nothing but call the next one shares one row too; such a run never
// contains the selected frame or a search match, so whatever is picked or marked always has a row of its own.

const SHORTEST_CHAIN = 4
// Frames of one chain differ by less than this share of their width: less than a pixel on any screen.
const SAME_WIDTH = 0.001

/** {row, chain_last, deepest}: row per node (-1: not below the focus, or inside a chain), last node of its chain. */
export function flameRows(trace, tree, {focus, selected, matches}) {
  const {node_count, node_parent, node_last} = trace
  const first = focus
  const last = node_last[focus]
  const is_kept = (node) => node === focus || node === selected || (matches !== null && matches[node] === 1)
  const head = chainHeads(trace, tree, first, last, is_kept)
  const length = new Int32Array(node_count)
  for (let node = first; node <= last; node++) length[head[node]]++
  const row = new Int32Array(node_count).fill(-1)
  const chain_last = new Int32Array(node_count).fill(-1)
  const place = new Int32Array(node_count)
  place[focus] = focus === 0 ? 0 : 1
  for (let node = first; node <= last; node++) {
    const in_chain = length[head[node]] >= SHORTEST_CHAIN && head[node] !== node
    if (node !== focus) place[node] = place[node_parent[node]] + (in_chain ? 0 : 1)
    if (in_chain) {
      chain_last[head[node]] = node
    } else {
      row[node] = place[node]
      chain_last[node] = node
    }
  }
  return {row, chain_last}
}

// The head of the chain that each node belongs to; a node alone is its own head.
function chainHeads(trace, tree, first, last, is_kept) {
  const {node_parent, node_layer, layers} = trace
  const {inclusive} = tree
  const python = layers.indexOf("python")
  const only_child = onlyChildren(trace, inclusive, first, last)
  const head = new Int32Array(trace.node_count)
  for (let node = first; node <= last; node++) {
    const parent = node_parent[node]
    const continues = node > first
      && only_child[parent] === node
      && node_layer[node] === python && node_layer[parent] === python
      && inclusive[parent] - inclusive[node] <= SAME_WIDTH * inclusive[parent]
      && !is_kept(node) && !is_kept(parent)
    head[node] = continues ? head[parent] : node
  }
  return head
}

// Per node its only child with a value: -1 where it has none, -2 where it has several.
function onlyChildren({node_count, node_parent}, inclusive, first, last) {
  const only = new Int32Array(node_count).fill(-1)
  for (let node = first + 1; node <= last; node++) {
    if (inclusive[node] <= 0) continue
    const parent = node_parent[node]
    only[parent] = only[parent] === -1 ? node : -2
  }
  return only
}

/** The frames of a chain that is drawn as one row, from its first to its last. */
export function chainMembers(trace, rows, node) {
  const members = []
  for (let at = rows.chain_last[node]; at > node; at = trace.node_parent[at]) members.push(at)
  members.push(node)
  return members.reverse()
}

/** Frames at least `least` wide that reach into [from, to): [node…] in preorder, and the deepest row among them. */
export function visibleFrames(trace, tree, left, rows, {focus, from, to, least}) {
  const nodes = []
  let deepest = 0
  const last = trace.node_last[focus]
  for (let node = focus; node <= last; node++) {
    const value = tree.inclusive[node]
    if (value < least || value <= 0 || left[node] + value <= from || left[node] >= to) {
      node = trace.node_last[node]
      continue
    }
    if (rows.row[node] < 0) continue
    nodes.push(node)
    if (rows.row[node] > deepest) deepest = rows.row[node]
  }
  return {nodes, deepest}
}

/**
 * The frame to zoom to so that `node` can be seen among its neighbours: the current focus if it shows the node wide
 * enough, else the highest caller in which it is.
 */
export function contextOf(trace, tree, node, focus, least_share = 0.05) {
  const value = tree.inclusive[node]
  const shows = (frame) => value >= least_share * tree.inclusive[frame]
  if (node >= focus && node <= trace.node_last[focus] && shows(focus)) return focus
  let context = node
  while (context > 0 && shows(trace.node_parent[context])) context = trace.node_parent[context]
  return context
}
