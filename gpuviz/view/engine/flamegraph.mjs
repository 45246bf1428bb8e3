// The flamegraph: call paths as an icicle, root on top. Width is a sum over all calls, never the length of one.

import {element, exactNumber, modelledBadge, setContent} from "./dom.mjs"
import {durationText, metricText, pluralText, shareText} from "./text.mjs"
import {frameLabel, layerOfNode, pathTo, shortLabel} from "./trace.mjs"
import {chainMembers, visibleFrames} from "./flame_rows.mjs"
import {fitLabels, paintFigure} from "./plots.mjs"
import {makeGlider} from "./glide.mjs"

const FLAME_ROW = 20
const MOST_ROWS = 26
const FLAME_BOXES = 1300
const FLAME_LABELS = 200
const LEAST_FRAME = 0.5
const LABEL_ROOM = 8
const NEAR_CALLERS = 5

const METRIC_TITLES = {
  gpu: "GPU time by call path",
  cpu: "CPU time by call path",
  launches: "GPU activities by call path",
}
const METRIC_WIDTHS = {
  gpu: "width = summed GPU time, not the length of one call",
  cpu: "width = summed time of the calls, not the length of one call",
  launches: "width = number of kernels, copies and fills, not of launches",
}

export function createFlamegraph({store, plot, title, clip, theme}) {
  const {trace, state, derived, actions} = store
  let drawn = []
  let row_count = 1
  let hidden_rows = 0
  const glider = makeGlider(plot.figure.x_range, actions.set_flame_range)

  function update(changed) {
    if (changed.has("theme")) paintFigure(plot.figure, theme.palette)
    if (["selection", "window", "metric", "query", "size"].some((what) => changed.has(what))) fitHeight()
    if (changed.has("flame_range") || changed.has("selection")) {
      glider.moveTo(state.flame_range, state.flame_glides && !changed.has("start"), draw)
    } else if (["query", "theme", "size"].some((what) => changed.has(what))) {
      draw()
    }
    if (["selection", "window", "metric", "query"].some((what) => changed.has(what))) drawTitle()
  }

  function leastValue([from, to]) {
    return (LEAST_FRAME * (to - from)) / plot.width()
  }

  // The height follows what the zoomed frame needs, and stays while the graph is only panned.
  function fitHeight() {
    const [from, to] = state.flame_range
    const {deepest} = visibleFrames(trace, derived.tree, derived.left, derived.rows, {
      focus: state.focus_node, from, to, least: leastValue(state.flame_range),
    })
    row_count = Math.min(deepest + 1, MOST_ROWS)
    hidden_rows = deepest + 1 - row_count
    plot.resize({height: row_count * FLAME_ROW, left: 1, right: 1, bottom: 1})
  }

  function draw() {
    const [from, to] = glider.shown()
    const least = leastValue([from, to])
    const {nodes} = visibleFrames(trace, derived.tree, derived.left, derived.rows, {
      focus: state.focus_node, from, to, least,
    })
    const frames = nodes.map(frameOf).filter((frame) => frame.row < row_count)
    if (state.focus_node > 0) frames.unshift(callersFrame())
    // Beyond the budget the narrowest frames go; the row above still shows their time.
    frames.sort((a, b) => b.value - a.value)
    drawn = frames.slice(0, FLAME_BOXES)
    drawBoxes(drawn, (to - from) / plot.width())
    drawLabels(drawn, from, to, (to - from) / plot.width())
  }

  function frameOf(node) {
    const left = derived.left[node]
    const value = derived.tree.inclusive[node]
    return {node, left, right: left + value, value, row: derived.rows.row[node]}
  }

  // All callers of the zoomed frame, in one row.
  function callersFrame() {
    const [left, right] = [derived.left[state.focus_node], derived.left[state.focus_node] + derived.tree.inclusive[state.focus_node]]
    return {node: 0, left, right, value: Infinity, row: 0, is_callers: true}
  }

  function drawBoxes(frames, pixel) {
    const columns = {left: [], right: [], bottom: [], top: [], fill: [], line: [], line_width: []}
    for (const frame of frames) {
      const bottom = plot.frame_height - (frame.row + 1) * FLAME_ROW
      const is_selected = !frame.is_callers && frame.node === state.selected_node
      const gap = frame.right - frame.left > 3 * pixel ? 0.5 * pixel : 0
      columns.left.push(frame.left + gap)
      columns.right.push(frame.right - gap)
      columns.bottom.push(bottom + 0.5)
      columns.top.push(bottom + FLAME_ROW - 0.5)
      columns.fill.push(fillOf(frame))
      columns.line.push(is_selected ? theme.palette.surface.selection : "transparent")
      columns.line_width.push(is_selected ? 2 : 0)
    }
    plot.setData("flamegraph-boxes", columns)
  }

  function drawLabels(frames, from, to, pixel) {
    const candidates = []
    for (const frame of frames) {
      const left = Math.max(frame.left, from)
      const pixels = (Math.min(frame.right, to) - left) / pixel - LABEL_ROOM
      if (pixels < 14) continue
      candidates.push({
        x: left + 4 * pixel,
        y: plot.frame_height - (frame.row + 0.5) * FLAME_ROW,
        pixels, text: labelOf(frame), color: textColorOf(frame),
      })
    }
    plot.setData("flamegraph-labels", fitLabels(candidates, FLAME_LABELS, clip))
  }

  function isMatch(frame) {
    return !frame.is_callers && derived.matches !== null && derived.matches[frame.node] === 1
  }

  function fillOf(frame) {
    const {surface, layer} = theme.palette
    if (isMatch(frame)) return surface.match
    return derived.matches && frame.node !== 0 ? surface.unselected : layer[trace.node_layer[frame.node]]
  }

  function textColorOf(frame) {
    const {surface, text_on_layer} = theme.palette
    if (isMatch(frame)) return "#000000"
    return derived.matches && frame.node !== 0 ? surface.unselected_text : text_on_layer[trace.node_layer[frame.node]]
  }

  function labelOf(frame) {
    if (frame.is_callers) return labelOfCallers(pathTo(trace, state.focus_node).slice(0, -1))
    if (frame.node === 0) return `${labelOfNode(0)} · ${metricText(state.metric, frame.value)}`
    const members = chainMembers(trace, derived.rows, frame.node)
    if (members.length === 1) return labelOfNode(frame.node)
    const last = members[members.length - 1]
    return `${labelOfNode(frame.node)} → … → ${labelOfNode(last)}  (${members.length} frames)`
  }

  // The nearest callers say more than the outermost.
  function labelOfCallers(callers) {
    const near = callers.slice(-NEAR_CALLERS).map(labelOfNode)
    const rest = callers.length - near.length
    return `◂ ${rest ? `${rest} more › ` : ""}${near.join(" › ")}`
  }

  function labelOfNode(node) {
    return shortLabel(trace, frameLabel(trace, node), layerOfNode(trace, node))
  }

  // Without the time of Python calls, what Python itself took is in no number.
  function metricTitle() {
    const is_partial = state.metric === "cpu" && !trace.called_layers.has("python")
    return is_partial ? "CPU time in recorded operators and API calls" : METRIC_TITLES[state.metric]
  }

  function drawTitle() {
    const parts = [METRIC_WIDTHS[state.metric]]
    if (hidden_rows > 0) parts.push(`${pluralText(hidden_rows, "deeper row")} not shown: click a frame to zoom in`)
    setContent(title,
      element("strong", {}, metricTitle()),
      modelledBadge(trace.meta),
      element("span", {class: "gpuviz-title-number"}, exactNumber(
        metricText(state.metric, derived.tree.total), state.metric === "launches" ? "count" : "ns", derived.tree.total,
      ), state.window ? ` in the window of ${durationText(state.window[1] - state.window[0])}` : ""),
      searchSummary(),
      element("span", {class: "gpuviz-muted"}, parts.join(" · ")),
    )
  }

  function searchSummary() {
    if (!derived.is_searching) return null
    if (derived.query_error) return element("span", {class: "gpuviz-title-match"}, `search: ${derived.query_error}`)
    return element("span", {class: "gpuviz-title-match"}, "search matches ", element("span", {
      data: {matched: derived.matched},
    }, shareText(derived.matched, derived.tree.total)))
  }

  /** The frame at a point of the window: {node, is_callers} or null. */
  function frameAt(client_x, client_y) {
    const point = plot.pointAt(client_x, client_y)
    return point.inside ? frameAtValue(point.value, Math.floor(point.y / FLAME_ROW)) : null
  }

  function frameAtValue(value, row) {
    return drawn.find((frame) => frame.row === row && value >= frame.left && value < frame.right) ?? null
  }

  plot.onTap((x, y) => {
    const frame = frameAtValue(x, Math.floor(y / FLAME_ROW))
    if (!frame) return
    // A chain's members have one width; its last frame is the most specific one.
    const members = frame.is_callers ? [0] : chainMembers(trace, derived.rows, frame.node)
    actions.select_node(members[members.length - 1])
  })

  return {
    update, frameAt,
    isMoving: glider.isMoving,
    counts: () => ({boxes: drawn.length, labels: plot.find("flamegraph-labels").data.text.length}),
    hoverAt(client_x, client_y) {
      const frame = frameAt(client_x, client_y)
      if (!frame) return null
      if (frame.is_callers) return {kind: "callers", node: state.focus_node}
      return {kind: "node", node: frame.node, members: chainMembers(trace, derived.rows, frame.node)}
    },
    /** Zooms around a point; `factor` < 1 zooms in. */
    zoom(factor, client_x = null) {
      const [from, to] = state.flame_range
      const at = client_x === null ? (from + to) / 2 : plot.pointAt(client_x, 0).value
      actions.set_flame_range([at - (at - from) * factor, at + (to - at) * factor], {glides: client_x === null})
    },
    pan(share) {
      const [from, to] = state.flame_range
      actions.set_flame_range([from + share * (to - from), to + share * (to - from)], {glides: true})
    },
    /** The middle of a frame in the browser's window; of a frame within a chain, that of the chain; null if not drawn. */
    positionOf(node) {
      while (node > state.focus_node && derived.rows.row[node] < 0) node = trace.node_parent[node]
      const frame = drawn.find((candidate) => !candidate.is_callers && candidate.node === node)
      if (!frame) return null
      const [from, to] = glider.shown()
      const middle = (Math.max(frame.left, from) + Math.min(frame.right, to)) / 2
      return plot.clientPoint(middle, (frame.row + 0.5) * FLAME_ROW)
    },
    destroy: glider.stop,
  }
}
