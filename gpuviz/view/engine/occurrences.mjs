// Where in time a frame's work lies: its single occurrences, and the busiest cluster of them. Pure.

import {boxesBelow, boxesOfNode} from "./trace.mjs"

/** GPU activities at or below the node, or, where it has none, its own calls; sorted by start. */
export function occurrencesOf(trace, node, window) {
  const [from, to] = window ?? [-Infinity, Infinity]
  const gpu = boxesBelow(trace, trace.activities, node)
  const boxes = gpu.length ? gpu : boxesOfNode(trace.calls, node)
  const {box_start, box_duration} = trace
  return boxes
    .filter((box) => box_start[box] < to && box_start[box] + box_duration[box] > from)
    .sort((a, b) => box_start[a] - box_start[b] || a - b)
}

/** The occurrences of all nodes that a search found; a match below another match is among those of the other. */
export function occurrencesOfMatches(trace, matches, window) {
  const boxes = []
  for (let node = 0; node < trace.node_count; node++) {
    if (!matches[node]) continue
    for (const box of occurrencesOf(trace, node, window)) boxes.push(box)
    node = trace.node_last[node]
  }
  return boxes.sort((a, b) => trace.box_start[a] - trace.box_start[b] || a - b)
}

/**
 * [from, to] of the cluster with the most work. Occurrences belong together while the gap between them is small next
 * to the usual gap or to their own length. A cluster that would fill the whole window says nothing: then the view goes
 * to the longest single occurrence and a few lengths around it.
 */
export function busiestCluster(trace, occurrences, window) {
  if (occurrences.length === 0) return null
  const {box_start, box_duration} = trace
  const usual_gap = Math.max(1, medianGap(trace, occurrences))
  let best = null
  let cluster = null
  for (const box of occurrences) {
    const start = box_start[box]
    const end = start + box_duration[box]
    if (cluster && start - cluster.to <= Math.max(8 * usual_gap, 20 * box_duration[box])) {
      cluster.to = Math.max(cluster.to, end)
      cluster.work += box_duration[box]
    } else {
      cluster = {from: start, to: end, work: box_duration[box]}
    }
    if (!best || cluster.work > best.work) best = cluster
  }
  const [from, to] = window ?? trace.extent
  if (occurrences.length > 1 && best.to - best.from > 0.5 * (to - from)) return aroundLongest(trace, occurrences)
  const padding = 0.15 * (best.to - best.from)
  return [best.from - padding, best.to + padding]
}

function medianGap({box_start, box_duration}, occurrences) {
  const gaps = new Float64Array(Math.max(0, occurrences.length - 1))
  for (let i = 0; i < gaps.length; i++) {
    const box = occurrences[i]
    gaps[i] = box_start[occurrences[i + 1]] - box_start[box] - box_duration[box]
  }
  gaps.sort()
  return gaps.length ? gaps[gaps.length >> 1] : 0
}

function aroundLongest({box_start, box_duration}, occurrences) {
  let longest = occurrences[0]
  for (const box of occurrences) if (box_duration[box] > box_duration[longest]) longest = box
  return aroundBox(box_start[longest], box_duration[longest])
}

function aroundBox(start, duration) {
  const margin = 6 * Math.max(1, duration)
  return [start - margin, start + duration + margin]
}

/**
 * The occurrence after (direction 1) or before (-1) `at`: a box among them (one step in their order, so that none with
 * the same times is left out), or a time in ns (the nearest whose middle lies beyond it). -1 if there is none.
 */
export function nextOccurrence({box_start, box_duration}, occurrences, at, direction) {
  const index = at.box === null ? -1 : occurrences.indexOf(at.box)
  if (index >= 0) return occurrences[index + direction] ?? -1
  let best = -1
  let best_distance = Infinity
  for (const box of occurrences) {
    const distance = (box_start[box] + box_duration[box] / 2 - at.time) * direction
    // Of those with one middle, a step forward begins at the first in order, a step back at the last.
    if (distance > 0.5 && (direction > 0 ? distance < best_distance : distance <= best_distance)) {
      best = box
      best_distance = distance
    }
  }
  return best
}
