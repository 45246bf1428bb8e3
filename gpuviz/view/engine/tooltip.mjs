// What is under the pointer, next to the pointer. Own DOM, so that names stay text and the histogram is a drawing.

import {element, setContent, swatch} from "./dom.mjs"
import {METRIC_NAMES, bytesText, countText, durationText, metricText, printable, rateText, shareText} from "./text.mjs"
import {boxName, frameLabel, isActivity, laneOfBox, layerOfBox, layerOfNode, nodeName, pathTo, placeOfNode} from "./trace.mjs"
import {exposureOfCopy} from "./sums.mjs"
import {isUnrecorded} from "./tree.mjs"
import {LAYER_LABELS} from "./palette.mjs"
import {drawHistogram} from "./histogram.mjs"

const MARGIN = 14
const MOST_MEMBERS = 10

export function createTooltip({store, box: tooltip, app, theme}) {
  const {trace, state, derived} = store

  function update(changed) {
    if (!changed.has("hover")) return
    const {hover} = state
    tooltip.hidden = hover === null
    if (hover === null) return
    setContent(tooltip, ...contentOf(hover))
    place(hover)
  }

  // Beside the pointer, within our own page area: what sticks out would be cut off by the notebook.
  function place({client_x, client_y}) {
    const area = app.getBoundingClientRect()
    const {width, height} = tooltip.getBoundingClientRect()
    let x = client_x - area.left + MARGIN
    if (x + width > area.width - 4) x = client_x - area.left - MARGIN - width
    let y = client_y - area.top + MARGIN
    if (y + height > area.height - 4 || client_y + MARGIN + height > innerHeight) y = client_y - area.top - MARGIN - height
    tooltip.style.left = `${Math.max(4, Math.min(x, area.width - width - 4))}px`
    tooltip.style.top = `${Math.max(4, y)}px`
  }

  function contentOf(hover) {
    if (hover.kind === "callers") return callersContent(hover.node)
    if (hover.kind === "node") return nodeContent(hover)
    if (hover.kind === "copy") return copyContent(hover)
    return boxContent(hover.box)
  }

  function heading(name, layer) {
    return element("div", {class: "gpuviz-tooltip-name"}, swatch(theme.palette.by_name[layer]), printable(name),
      element("span", {class: "gpuviz-muted"}, ` ${LAYER_LABELS[layer] ?? layer}`))
  }

  function callersContent(node) {
    const callers = pathTo(trace, node).slice(0, -1)
    return [
      element("div", {class: "gpuviz-tooltip-name"}, "Back to the whole graph"),
      element("ol", {class: "gpuviz-path"}, ...callers.slice(-MOST_MEMBERS).map((caller) => element("li", {}, printable(nodeName(trace, caller))))),
    ]
  }

  function nodeContent({node, members}) {
    const last = members[members.length - 1]
    const statistics = store.statistics(last)
    const place_text = placeOfNode(trace, last)
    return [
      members.length > 1 ? chainContent(members) : null,
      heading(frameLabel(trace, last), layerOfNode(trace, last)),
      place_text ? element("div", {class: "gpuviz-muted gpuviz-wrap"}, printable(place_text)) : null,
      numberGrid(nodeRows(statistics)),
      ...distribution(statistics),
    ].filter(Boolean)
  }

  function chainContent(members) {
    const shown = members.slice(0, MOST_MEMBERS)
    const rest = members.length - shown.length
    return element("div", {class: "gpuviz-chain"},
      element("div", {class: "gpuviz-muted"}, `${members.length} frames, each only calling the next:`),
      ...shown.map((member) => element("div", {class: "gpuviz-wrap"}, printable(nodeName(trace, member)))),
      rest > 0 ? element("div", {class: "gpuviz-muted"}, `and ${rest} more`) : null)
  }

  function nodeRows({node, inclusive, exclusive, calls, activities}) {
    const {metric} = state
    const rows = [
      [METRIC_NAMES[metric], `${metricText(metric, inclusive)} · ${shareText(inclusive, derived.tree.total)}`],
      ["of its own", metricText(metric, exclusive)],
    ]
    if (calls !== null || isUnrecorded(trace, node)) rows.push(["calls", countText(calls)])
    if (metric !== "launches" && (activities || metric !== "cpu")) rows.push(["GPU activities", countText(activities)])
    return rows
  }

  function distribution(statistics) {
    if (statistics.count === 0) return []
    const unit = state.metric === "cpu" ? "one call" : "one GPU activity"
    return [
      element("div", {class: "gpuviz-tooltip-section"}, `Duration of ${unit}`),
      numberGrid([
        ["mean", durationText(statistics.mean)], ["p50", durationText(statistics.p50)], ["p99", durationText(statistics.p99)],
      ]),
      drawHistogram(statistics, {
        width: 240, height: 36, color: theme.palette.by_name[state.metric === "cpu" ? "python" : "kernel"], ink: theme.palette.surface.ink, with_axis: false,
      }),
      element("div", {class: "gpuviz-ends gpuviz-muted"},
        element("span", {}, durationText(statistics.min)), element("span", {}, durationText(statistics.max))),
    ]
  }

  function boxContent(box) {
    const node = trace.box_node[box]
    const rows = [
      ["duration", trace.is_open[box] ? "unknown (never ended)" : durationText(trace.box_duration[box])],
      ["start", durationText(trace.box_start[box])],
      ["lane", printable(laneOfBox(trace, box).label)],
    ]
    const launch = trace.box_launch[box]
    if (isActivity(trace, box) && launch >= 0) {
      rows.push(["launch latency", durationText(trace.box_start[box] - trace.box_start[launch])])
    }
    const place_text = node >= 0 ? placeOfNode(trace, node) : null
    if (place_text) rows.push(["source", printable(place_text)])
    return [heading(boxName(trace, box), layerOfBox(trace, box)), numberGrid(rows)]
  }

  function copyContent({copy, box}) {
    const {hidden_ns, exposed_ns} = exposureOfCopy(trace, derived.covers, copy)
    const bytes = trace.copies.bytes[copy]
    const duration = trace.box_duration[box]
    return [
      heading(boxName(trace, box), "memcpy"),
      numberGrid([
        ["duration", durationText(duration)],
        ["hidden", `${durationText(hidden_ns)} · ${shareText(hidden_ns, duration)}`],
        ["exposed", `${durationText(exposed_ns)} · ${shareText(exposed_ns, duration)}`],
        ["size", bytesText(bytes)],
        ["rate", rateText(bytes, duration)],
        ["start", durationText(trace.box_start[box])],
      ]),
    ]
  }

  return {update}
}

function numberGrid(rows) {
  return element("dl", {class: "gpuviz-grid"}, ...rows.flatMap(([label, text]) => [element("dt", {}, label), element("dd", {}, text)]))
}
