// What is below a frame, by name: GPU activities, or (for CPU time) the calls by their own time. Pure.

import {boxName, boxesBelow, layerOfBox, layerOfNode, nodeName} from "./trace.mjs"
import {clippedDuration} from "./sums.mjs"
import {durationsIn} from "./tree.mjs"
import {nearestRank} from "./statistics.mjs"

/** Rows [{name, layer, time_ns, count, p50_ns, max_ns, node}], the largest time first. */
export function workBelow(trace, tree, node) {
  return tree.metric === "cpu" ? callsBelow(trace, tree, node) : activitiesBelow(trace, tree, node)
}

function activitiesBelow(trace, tree, node) {
  const window = tree.window ?? [-Infinity, Infinity]
  const groups = new Map()
  for (const box of boxesBelow(trace, trace.activities, node)) {
    const time = clippedDuration(trace.box_start[box], trace.box_duration[box], ...window)
    const starts = trace.box_start[box] >= window[0] && trace.box_start[box] < window[1]
    if (time <= 0 && !starts) continue
    const group = groupOf(groups, boxName(trace, box), layerOfBox(trace, box))
    group.time_ns += time
    group.boxes.push(box)
    addNode(group, trace.box_node[box], time)
  }
  return finishGroups(trace, groups, window)
}

function callsBelow(trace, tree, node) {
  const groups = new Map()
  const window = tree.window ?? [-Infinity, Infinity]
  for (let at = node; at <= trace.node_last[node]; at++) {
    if (tree.exclusive[at] <= 0) continue
    const group = groupOf(groups, nodeName(trace, at), layerOfNode(trace, at))
    group.time_ns += tree.exclusive[at]
    addNode(group, at, tree.exclusive[at])
    const {order, offset} = trace.calls
    for (let i = offset[at + 1]; i < offset[at + 2]; i++) group.boxes.push(order[i])
  }
  return finishGroups(trace, groups, window)
}

function groupOf(groups, name, layer) {
  const key = `${layer}\n${name}`
  let group = groups.get(key)
  if (!group) groups.set(key, (group = {name, layer, time_ns: 0, boxes: [], node_time: new Map()}))
  return group
}

function addNode(group, node, time) {
  group.node_time.set(node, (group.node_time.get(node) ?? 0) + time)
}

function finishGroups(trace, groups, window) {
  return [...groups.values()]
    .map(({name, layer, time_ns, boxes, node_time}) => {
      const durations = durationsIn(trace, boxes, window).sort()
      return {
        name, layer, time_ns,
        count: durations.length,
        p50_ns: nearestRank(durations, 0.5),
        max_ns: durations.length ? durations[durations.length - 1] : null,
        node: [...node_time].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0],
      }
    })
    .sort((a, b) => b.time_ns - a.time_ns || (a.name < b.name ? -1 : 1))
}
