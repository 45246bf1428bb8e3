// Copy/compute overlap: per device and direction, how much of each pixel's time a copy ran, hidden under a kernel of
// that device or exposed.

import {element, exactNumber, modelledBadge, setContent} from "./dom.mjs"
import {durationText, shareText} from "./text.mjs"
import {copyAt, copyShares} from "./sums.mjs"
import {paintFigure, setTimeTicks} from "./plots.mjs"
import {timeTicks} from "./axis.mjs"
import {LABEL_BORDER, markWindow} from "./timeline.mjs"

const COPY_LANE = 30
const COPY_GAP = 6
const COPY_STRIP = 14
const COPY_AXIS = 24
const COPY_BOXES = 700
const COPY_REACH = 3

// Nothing is not the same as a little: a run of empty columns must not take in a column with a short copy.
function isSameShare(a, b) {
  return a === b || (a > 0 && b > 0 && Math.abs(a - b) < 0.01)
}

export function createCopies({store, plot, title, lane_labels, theme, page}) {
  const {trace, state, derived, actions} = store
  const directions = trace.directions.map((_, index) => index)
  let drawn = 0
  let lane_height = COPY_LANE

  function update(changed) {
    if (changed.has("theme")) paintFigure(plot.figure, theme.palette)
    if (changed.has("size") || changed.has("theme")) arrange()
    if (changed.has("window") || changed.has("theme")) markWindow(plot, "copies-window", state.window, theme)
    if (changed.has("window") || changed.has("theme")) drawTitle()
  }

  function topOf(direction) {
    return 4 + direction * (lane_height + COPY_GAP)
  }

  function arrange() {
    const inside = page.isNarrow()
    lane_height = COPY_LANE + (inside ? COPY_STRIP : 0)
    const height = 4 + directions.length * (lane_height + COPY_GAP)
    plot.resize({height, left: inside ? 1 : LABEL_BORDER, right: 1, bottom: COPY_AXIS})
    lane_labels.classList.toggle("gpuviz-inside", inside)
    setContent(lane_labels, ...trace.directions.map(({label}, direction) => element("div", {
      class: "gpuviz-lane", title: label,
      style: {top: `${topOf(direction) + 1}px`, height: `${inside ? COPY_STRIP : lane_height}px`},
    }, element("span", {class: "gpuviz-lane-text"}, label))))
  }

  function draw(view) {
    const width = plot.width()
    let runs = []
    // Columns get wider until what is to be drawn fits the budget; steady stretches count as one.
    for (let column = 2; column === 2 || (runs.length > COPY_BOXES && column < 64); column *= 2) {
      const count = Math.max(1, Math.round(width / column))
      runs = directions.flatMap((direction) => runsOf(direction, view, count))
    }
    drawn = runs.length
    plot.setData("copies-boxes", {
      left: runs.map((run) => run.left),
      right: runs.map((run) => run.right),
      bottom: runs.map((run) => run.bottom),
      top: runs.map((run) => run.top),
      fill: runs.map((run) => (run.is_hidden ? theme.palette.hidden : theme.palette.exposed)),
    })
    setTimeTicks(plot.figure, timeTicks(view, width))
  }

  function runsOf(direction, view, count) {
    const {hidden, all} = copyShares(derived.covers, direction, view, count)
    const base = plot.frame_height - topOf(direction) - lane_height
    const column = (view[1] - view[0]) / count
    const runs = []
    const add = (first, last, low, high, is_hidden) => {
      if (high - low < 1e-9) return
      // A copy too short to fill a pixel's height still shows.
      const least = 1 / COPY_LANE
      runs.push({
        left: view[0] + first * column, right: view[0] + last * column, is_hidden,
        bottom: base + COPY_LANE * low, top: base + COPY_LANE * Math.max(high, low + least),
      })
    }
    let first = 0
    for (let bin = 1; bin <= count; bin++) {
      if (bin < count && isSameShare(all[bin], all[first]) && isSameShare(hidden[bin], hidden[first])) continue
      add(first, bin, 0, hidden[first], true)
      add(first, bin, hidden[first], all[first], false)
      first = bin
    }
    return runs
  }

  function drawTitle() {
    const rows = derived.copy_time.filter((row) => row.union_ns > 0)
    setContent(title,
      element("strong", {}, "Copy/compute overlap"),
      modelledBadge(trace.meta),
      ...rows.map((row) => element("span", {class: "gpuviz-title-number", data: {direction: row.direction}},
        `${row.label} `, exactNumber(durationText(row.union_ns), "ns", row.union_ns), ", ",
        element("span", {data: {"hidden-ns": row.hidden_ns}}, shareText(row.hidden_ns, row.union_ns)), " hidden")),
      rows.length ? null : element("span", {class: "gpuviz-muted"}, "no copy ran in the window"),
      legendEntry("hidden", "hidden under a kernel"),
      legendEntry("exposed", "exposed"),
    )
  }

  function legendEntry(kind, label) {
    return element("span", {class: "gpuviz-muted gpuviz-legend-entry"},
      element("span", {class: "gpuviz-swatch", style: {background: theme.palette[kind]}}), label)
  }

  function directionAt(y) {
    return directions.find((direction) => y >= topOf(direction) && y < topOf(direction) + lane_height) ?? -1
  }

  function copyAtPoint(value, y) {
    const direction = directionAt(y)
    if (direction < 0) return -1
    const {start, end} = plot.figure.x_range
    return copyAt(trace, direction, value, (COPY_REACH * (end - start)) / plot.width())
  }

  plot.onTap((x, y) => {
    const copy = copyAtPoint(x, y)
    if (copy >= 0) actions.select_box(trace.copies.box[copy])
  })
  plot.figure.on_event("doubletap", () => actions.reset())

  return {
    update, draw,
    counts: () => ({boxes: drawn, labels: 0}),
    hoverAt(client_x, client_y) {
      const point = plot.pointAt(client_x, client_y)
      if (!point.inside) return null
      const copy = copyAtPoint(point.value, point.y)
      return copy < 0 ? null : {kind: "copy", copy, box: trace.copies.box[copy]}
    },
  }
}
