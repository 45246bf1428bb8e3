// The timeline: one lane per stream, wait, range and thread. Long boxes are drawn one by one, short ones as shading.

import {element, exactNumber, modelledBadge, setContent} from "./dom.mjs"
import {durationText, pluralText, printable} from "./text.mjs"
import {boxName, layerOfBox, nodeName, shortLabel} from "./trace.mjs"
import {boxAt, fillColumns, leastDrawn, longBoxes, makeColumns} from "./level_of_detail.mjs"
import {LABELLED_ROW, layoutLanes, rowAt, shownLabel} from "./lanes.mjs"
import {fitLabels, paintFigure, setTimeTicks} from "./plots.mjs"
import {timeTicks} from "./axis.mjs"
import {mixColors, rgbOf} from "./palette.mjs"

const TIMELINE_BOXES = 1900
const TIMELINE_LABELS = 220
const MOST_COLUMNS = 1600
const AXIS_HEIGHT = 24
const HOVER_REACH = 3
export const LABEL_BORDER = 156

export function createTimeline({store, plot, title, lane_labels, clip, theme, page}) {
  const {trace, state, actions} = store
  let layout = null
  let columns = null
  let drawn = {boxes: 0, labels: 0, short: 0}

  function update(changed) {
    if (changed.has("theme")) paintFigure(plot.figure, theme.palette)
    if (changed.has("lanes") || changed.has("size") || changed.has("theme")) arrange()
    if (changed.has("window") || changed.has("theme")) markWindow(plot, "timeline-window", state.window, theme)
    if (changed.has("drag_mode")) activateTool(state.drag_mode === "pan")
    drawTitle()
  }

  function arrange() {
    const inside = page.isNarrow()
    layout = layoutLanes(trace, {expanded: state.expanded_lanes, inside})
    plot.resize({height: layout.height, left: inside ? 1 : LABEL_BORDER, right: 1, bottom: AXIS_HEIGHT})
    drawLaneLabels(inside)
  }

  /** Draws [from, to]; called for every frame of a movement. */
  function draw([from, to]) {
    const width = plot.width()
    const pixel = (to - from) / width
    const least = leastDrawn(trace, [from, to], width, TIMELINE_BOXES)
    const boxes = longBoxes(trace, [from, to], least)
    const is_lit = store.isLit()
    drawn.boxes = boxes.length
    drawBoxes(boxes, is_lit, pixel)
    drawLabels(boxes, is_lit, from, to, pixel)
    drawShading([from, to], width, least, is_lit)
    drawArrows(pixel)
    setTimeTicks(plot.figure, timeTicks([from, to], width))
    drawTitle()
  }

  // Each row is a little lower than its place, so that neighbours stay apart; thin rows have no room for that.
  function edgesOfRow(row) {
    const height = layout.row_height[row]
    const inset = height >= LABELLED_ROW ? 1 : height >= 4 ? 0.5 : 0
    const top = layout.height - layout.row_top[row] - inset
    return {top, bottom: top - height + 2 * inset}
  }

  function drawBoxes(boxes, is_lit, pixel) {
    const {layer, surface} = theme.palette
    const data = {left: [], right: [], bottom: [], top: [], fill: []}
    for (const box of boxes) {
      const {top, bottom} = edgesOfRow(trace.box_row[box])
      const start = trace.box_start[box]
      const end = drawnEndOf(box)
      data.left.push(start)
      // A gap of a pixel tells neighbours apart; it costs less than a border.
      data.right.push(end - start > 5 * pixel ? end - pixel : end)
      data.bottom.push(bottom)
      data.top.push(top)
      data.fill.push(is_lit(box) ? layer[trace.box_layer[box]] : surface.unselected)
    }
    plot.setData("timeline-boxes", data)
  }

  function drawnEndOf(box) {
    return trace.is_open[box] ? trace.end_ns : trace.box_start[box] + trace.box_duration[box]
  }

  function drawLabels(boxes, is_lit, from, to, pixel) {
    const {text_on_layer, surface} = theme.palette
    const candidates = []
    for (const box of boxes) {
      const row = trace.box_row[box]
      if (layout.row_height[row] < LABELLED_ROW) continue
      const left = Math.max(trace.box_start[box], from)
      const pixels = (Math.min(drawnEndOf(box), to) - left) / pixel - 8
      if (pixels < 18) continue
      const name = shortLabel(trace, printable(boxName(trace, box)), layerOfBox(trace, box))
      candidates.push({
        x: left + 4 * pixel,
        y: layout.height - layout.row_top[row] - layout.row_height[row] / 2,
        pixels,
        text: trace.is_open[box] ? `${name} (never ended)` : name,
        color: is_lit(box) ? text_on_layer[trace.box_layer[box]] : surface.unselected_text,
      })
    }
    const labels = fitLabels(candidates, TIMELINE_LABELS, clip)
    drawn.labels = labels.text.length
    plot.setData("timeline-labels", labels)
  }

  // One image over the whole plot: a texel is one pixel high and as wide as a column.
  function drawShading([from, to], width, least, is_lit) {
    const count = Math.max(1, Math.min(MOST_COLUMNS, Math.round(width)))
    if (!columns || columns.count !== count) columns = makeColumns(trace, count)
    const height = Math.round(layout.height)
    const pixels = new Uint32Array(count * height)
    const column_width = (to - from) / count
    const line = new Uint32Array(count)
    drawn.short = 0
    for (let row = 0; row < trace.row_count; row++) {
      fillColumns(trace, row, [from, to], least, is_lit, columns)
      if (columns.filled === 0) continue
      drawn.short += columns.filled
      paintLine(line, column_width)
      const {top, bottom} = edgesOfRow(row)
      const first = Math.round(layout.height - top)
      const last = Math.max(first + 1, Math.round(layout.height - bottom))
      for (let y = first; y < last && y < height; y++) blend(pixels, y * count, line)
    }
    const source = plot.find("timeline-image")
    const Image = source.data.image[0].constructor
    source.data = {
      image: [new Image(pixels, [height, count])], x: [from], y: [0], dw: [to - from], dh: [layout.height],
    }
  }

  function paintLine(line, column_width) {
    const unselected = rgbOf(theme.palette.surface.unselected)
    for (let column = 0; column < columns.count; column++) {
      if (columns.layer[column] < 0) {
        line[column] = 0
        continue
      }
      const share = Math.min(1, columns.busy[column] / column_width)
      const [red, green, blue] = mixColors(unselected, theme.palette.rgb_of_layer[columns.layer[column]], litShare(column))
      // Even the shortest event stays visible.
      const alpha = Math.round(255 * (0.3 + 0.7 * share))
      line[column] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0
    }
  }

  // The selected part of a column's time; a little of it must not drown among the rest.
  function litShare(column) {
    if (!store.isDimming()) return 1
    return columns.lit[column] > 0 ? Math.max(0.3, columns.lit[column] / columns.busy[column]) : 0
  }

  // Rows thinner than a pixel share texels: the more opaque one wins.
  function blend(pixels, offset, line) {
    for (let column = 0; column < line.length; column++) {
      if (line[column] >>> 24 > pixels[offset + column] >>> 24) pixels[offset + column] = line[column]
    }
  }

  // From a launch to what it started, and a frame around the selected interval.
  function drawArrows(pixel) {
    const data = {x0: [], y0: [], x1: [], y1: []}
    const add = (x0, y0, x1, y1) => {
      data.x0.push(x0)
      data.y0.push(y0)
      data.x1.push(x1)
      data.y1.push(y1)
    }
    const box = state.selected_box
    if (box !== null) {
      const {launch, activities} = store.linksOfBox(box)
      if (launch >= 0) arrowBetween(launch, box, pixel, add)
      for (const activity of activities.slice(0, 200)) arrowBetween(box, activity, pixel, add)
      frameAround(box, pixel, add)
    }
    plot.setData("timeline-arrows", data)
    plot.find("timeline-arrows-lines")?.glyph.setv({line_color: theme.palette.surface.arrow})
  }

  function arrowBetween(launch, activity, pixel, add) {
    const from = edgesOfRow(trace.box_row[launch])
    const to = edgesOfRow(trace.box_row[activity])
    const goes_up = to.bottom >= from.top
    const [x0, y0] = [trace.box_start[launch], goes_up ? from.top : from.bottom]
    const [x1, y1] = [trace.box_start[activity], goes_up ? to.bottom : to.top]
    const barb = goes_up ? -5 : 5
    add(x0, y0, x1, y1)
    add(x1 - 3 * pixel, y1 + barb, x1, y1)
    add(x1 + 3 * pixel, y1 + barb, x1, y1)
  }

  function frameAround(box, pixel, add) {
    const {top, bottom} = edgesOfRow(trace.box_row[box])
    const left = trace.box_start[box]
    const right = Math.max(drawnEndOf(box), left + 2 * pixel)
    add(left, top, right, top)
    add(left, bottom, right, bottom)
    add(left, bottom, left, top)
    add(right, bottom, right, top)
  }

  function drawTitle() {
    const [from, to] = state.view
    const selected = state.selected_node
    setContent(title,
      element("strong", {}, "Timeline"),
      modelledBadge(trace.meta),
      element("span", {class: "gpuviz-title-number"}, `${durationText(to - from)} shown`),
      state.window ? windowChip() : null,
      selected === null ? null : element("span", {class: "gpuviz-muted"}, `in colour: ${printable(nodeName(trace, selected))}`),
      element("span", {class: "gpuviz-muted"}, hintText()),
    )
  }

  function hintText() {
    const parts = []
    if (drawn.short) parts.push(`${pluralText(drawn.short, "short interval")} as shading`)
    if (state.selected_node !== null) parts.push("N / P: next, previous")
    else if (!state.window) parts.push(state.drag_mode === "select" ? "drag to select a window" : "drag to move")
    return parts.join(" · ")
  }

  function windowChip() {
    const [from, to] = state.window
    return element("span", {class: "gpuviz-chip gpuviz-window-chip"},
      "window ", exactNumber(durationText(from), "from-ns", from), " – ", exactNumber(durationText(to), "to-ns", to),
      ` (${durationText(to - from)})`,
      element("button", {
        type: "button", class: "gpuviz-plain", "aria-label": "Clear the window", title: "Clear the window (Esc)",
        on: {click: () => actions.set_window(null)},
      }, "×"))
  }

  function drawLaneLabels(inside) {
    lane_labels.classList.toggle("gpuviz-inside", inside)
    const labels = layout.lanes.map((place) => laneLabel(place, inside))
    const headings = layout.headings.map(({label, top, height}) => element("div", {
      class: "gpuviz-heading", title: label, style: {top: `${top + 1}px`, height: `${height}px`},
    }, printable(label)))
    setContent(lane_labels, ...headings, ...labels)
  }

  function laneLabel({index, top, strip, height, expandable, is_expanded}, inside) {
    const lane = trace.lanes[index]
    const style = {top: `${top + 1}px`, height: `${inside ? strip : Math.max(14, height)}px`}
    const text = element("span", {class: "gpuviz-lane-text"}, printable(shownLabel(trace, layout, lane)))
    if (!expandable) return element("div", {class: "gpuviz-lane", title: lane.label, style}, text)
    const hint = is_expanded ? "Show with thin rows" : `Show all ${lane.row_count} rows`
    return element("button", {
      type: "button", class: "gpuviz-lane", title: `${lane.label}\n${hint}`, style, "aria-expanded": String(is_expanded), data: {focus: `lane ${index}`},
      on: {click: () => actions.toggle_lane(index)},
    }, element("span", {class: "gpuviz-caret", "aria-hidden": "true"}, is_expanded ? "▾" : "▸"), text)
  }

  function activateTool(pan) {
    plot.find(pan ? "timeline-pan" : "timeline-select").active = true
  }

  function boxAtPoint(value, y) {
    const row = rowAt(trace, layout, y)
    if (row < 0) return -1
    const [from, to] = [plot.figure.x_range.start, plot.figure.x_range.end]
    return boxAt(trace, row, value, (HOVER_REACH * (to - from)) / plot.width())
  }

  plot.onTap((x, y) => {
    const box = boxAtPoint(x, y)
    if (box >= 0) actions.select_box(box)
    else actions.clear_selection()
  })
  plot.figure.on_event("doubletap", () => actions.reset())
  plot.figure.on_event("selectiongeometry", (event) => {
    if (event.final) actions.set_window([event.geometry.x0, event.geometry.x1])
  })

  return {
    update, draw, activateTool,
    counts: () => ({boxes: drawn.boxes, labels: drawn.labels}),
    hoverAt(client_x, client_y) {
      const point = plot.pointAt(client_x, client_y)
      if (!point.inside) return null
      const box = boxAtPoint(point.value, point.y)
      return box < 0 ? null : {kind: "box", box}
    },
    positionOf(box) {
      const row = trace.box_row[box]
      const middle = (Math.max(trace.box_start[box], state.view[0]) + Math.min(drawnEndOf(box), state.view[1])) / 2
      return plot.clientPoint(middle, layout.row_top[row] + layout.row_height[row] / 2)
    },
  }
}

export function markWindow(plot, name, window, theme) {
  const mark = plot.find(name)
  if (window) mark.setv({left: window[0], right: window[1], visible: true, line_color: theme.palette.surface.window})
  else mark.visible = false
}
