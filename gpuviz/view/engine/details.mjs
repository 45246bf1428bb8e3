// The panel below the plots: what is selected, in numbers; and the work below it, by name.

import {element, exactNumber, setContent, swatch} from "./dom.mjs"
import {METRIC_NAMES, bytesText, countText, durationText, metricText, printable, rateText, shareText} from "./text.mjs"
import {boxName, frameLabel, isActivity, laneOfBox, layerOfBox, layerOfNode, pathTo, placeOfNode, shortLabel} from "./trace.mjs"
import {exposureOfCopy} from "./sums.mjs"
import {isUnrecorded} from "./tree.mjs"
import {LAYER_LABELS} from "./palette.mjs"
import {drawHistogram} from "./histogram.mjs"
import {workBelow} from "./work.mjs"

const MOST_WORK_ROWS = 16
const WHOLE_PATH = 8

export function createDetails({store, panel, theme}) {
  const {trace, state, derived, actions} = store
  const selected_part = element("section", {class: "gpuviz-selected", "aria-live": "polite"})
  const work_part = element("section", {class: "gpuviz-work"})
  let shows_whole_path = false
  let shows_all_work = false
  panel.append(selected_part, work_part)

  function update(changed) {
    if (!["selection", "window", "metric", "theme"].some((what) => changed.has(what))) return
    if (changed.has("selection")) shows_whole_path = shows_all_work = false
    drawSelected()
    drawWork()
  }

  function shownNode() {
    return state.selected_node ?? 0
  }

  function drawSelected() {
    const node = shownNode()
    const statistics = store.statistics(node)
    setContent(selected_part,
      heading(node), breadcrumb(node), windowLine(),
      state.selected_box === null ? null : oneInterval(state.selected_box),
      sumsOf(statistics), distributionOf(statistics))
  }

  function heading(node) {
    const has_only_box = node === 0 && state.selected_box !== null
    const name = has_only_box ? printable(boxName(trace, state.selected_box)) : node === 0 ? "Everything" : frameLabel(trace, node)
    const layer = has_only_box ? layerOfBox(trace, state.selected_box) : layerOfNode(trace, node)
    const place = has_only_box ? null : placeOfNode(trace, node)
    return element("div", {class: "gpuviz-details-heading"},
      element("h4", {}, swatch(theme.palette.by_name[layer]), element("span", {class: "gpuviz-wrap"}, name),
        node === 0 && !has_only_box ? null : element("span", {class: "gpuviz-muted"}, ` ${LAYER_LABELS[layer] ?? layer}`)),
      place ? element("div", {class: "gpuviz-muted gpuviz-wrap"}, printable(place)) : null)
  }

  // The way from the root, each step clickable; a long one shows its ends until asked for all.
  function breadcrumb(node) {
    const path = pathTo(trace, node).slice(0, -1)
    if (path.length === 0) return null
    const is_cut = path.length > WHOLE_PATH && !shows_whole_path
    const shown = is_cut ? [path[0], null, ...path.slice(3 - WHOLE_PATH)] : path
    const steps = shown.map((step) => element("li", {}, step === null
      ? plainButton(`… ${path.length - WHOLE_PATH + 2} more`, "Show every caller", "callers", () => { shows_whole_path = true; drawSelected() })
      : plainButton(shortLabel(trace, frameLabel(trace, step), layerOfNode(trace, step)), frameLabel(trace, step), `caller ${step}`, () => actions.select_node(step))))
    return element("nav", {"aria-label": "Call path"}, element("ol", {class: "gpuviz-breadcrumb"}, ...steps))
  }

  function windowLine() {
    if (!state.window) return element("div", {class: "gpuviz-muted"}, "in the whole trace")
    const [from, to] = state.window
    return element("div", {class: "gpuviz-muted"}, `in the window ${durationText(from)} – ${durationText(to)}`)
  }

  function sumsOf({inclusive, exclusive, calls, activities}) {
    const {metric} = state
    const kind = metric === "launches" ? "count" : "ns"
    const {total} = derived.tree
    const rows = [
      [METRIC_NAMES[metric], [exactNumber(metricText(metric, inclusive), kind, inclusive), element("span", {class: "gpuviz-muted"}, ` ${shareText(inclusive, total)}`)], "inclusive"],
      ["of its own", [exactNumber(metricText(metric, exclusive), kind, exclusive)], "exclusive"],
    ]
    if (calls !== null || isUnrecorded(trace, shownNode())) rows.push(["calls", [exactNumber(countText(calls), "count", calls)], "calls"])
    if (trace.activities.count && metric !== "launches") rows.push(["GPU activities", [exactNumber(countText(activities), "count", activities)], "activities"])
    return definitionList(rows)
  }

  function distributionOf(statistics) {
    const unit = state.metric === "cpu" ? "call" : "GPU activity"
    if (state.metric === "cpu" && statistics.calls === null) {
      return [element("p", {class: "gpuviz-muted"}, isUnrecorded(trace, shownNode())
        ? "Its calls were not recorded: its time is that of the recorded calls below it." : "Not a call of the host: its time is that of the calls below it.")]
    }
    if (statistics.count === 0) {
      return [element("p", {class: "gpuviz-muted"}, `No ${unit} at or below it starts ${state.window ? "in the window" : "in this trace"}.`)]
    }
    const value = (name) => [exactNumber(durationText(statistics[name]), "ns", statistics[name])]
    return [
      element("h5", {}, `Duration of one ${unit}`, element("span", {class: "gpuviz-muted"}, ` ${countText(statistics.count)} of them`)),
      definitionList(["mean", "min", "p50", "p99", "max"].map((name) => [name, value(name), name]), "gpuviz-inline"),
      drawHistogram(statistics, {
        width: 320, height: 72, color: theme.palette.by_name[state.metric === "cpu" ? "python" : "kernel"],
        ink: theme.palette.surface.ink, with_axis: true,
      }),
    ]
  }

  function oneInterval(box) {
    const rows = [
      ["start", [exactNumber(durationText(trace.box_start[box]), "ns", trace.box_start[box])], "start"],
      ["duration", trace.is_open[box] ? ["unknown (its end was never recorded)"]
        : [exactNumber(durationText(trace.box_duration[box]), "ns", trace.box_duration[box])], "duration"],
      ["lane", [printable(laneOfBox(trace, box).label)], "lane"],
    ]
    if (isActivity(trace, box)) rows.push(...launchRows(box), ...copyRows(box))
    else {
      const {activities} = store.linksOfBox(box)
      if (activities.length) rows.push(["started on the GPU", [exactNumber(countText(activities.length), "count", activities.length)], "started"])
    }
    return element("div", {class: "gpuviz-one"}, element("h5", {}, `This ${LAYER_LABELS[layerOfBox(trace, box)] ?? "interval"}`), definitionList(rows))
  }

  // Latency: from the start of the launching call. Queue delay: from its end, at least 0.
  function launchRows(box) {
    const launch = trace.box_launch[box]
    const number = (ns) => [ns === null ? "unknown" : exactNumber(durationText(ns), "ns", ns)]
    if (launch < 0) return [["launch latency", number(null), "launch-latency"], ["queue delay", number(null), "queue-delay"]]
    const latency = trace.box_start[box] - trace.box_start[launch]
    const delay = trace.is_open[launch] ? null : Math.max(0, latency - trace.box_duration[launch])
    return [
      ["launched by", [plainButton(boxName(trace, launch), "Select the call", "launch", () => actions.select_box(launch))], "launched-by"],
      ["launch latency", number(latency), "launch-latency"],
      ["queue delay", number(delay), "queue-delay"],
    ]
  }

  function copyRows(box) {
    const copy = trace.copies.index_of_box.get(box)
    if (copy === undefined) return []
    const bytes = trace.copies.bytes[copy]
    const {hidden_ns, exposed_ns} = exposureOfCopy(trace, derived.covers, copy)
    return [
      ["size", [exactNumber(bytesText(bytes), "bytes", bytes < 0 ? null : bytes)], "bytes"],
      ["rate", [rateText(bytes, trace.box_duration[box])], "rate"],
      ["hidden", [exactNumber(durationText(hidden_ns), "ns", hidden_ns)], "hidden"],
      ["exposed", [exactNumber(durationText(exposed_ns), "ns", exposed_ns)], "exposed"],
    ]
  }

  function drawWork() {
    const is_cpu = state.metric === "cpu"
    const rows = workBelow(trace, derived.tree, shownNode())
    const total = rows.reduce((sum, row) => sum + row.time_ns, 0)
    const title = element("h4", {}, is_cpu ? "CPU work below it" : "GPU work below it",
      element("span", {class: "gpuviz-muted"}, is_cpu ? " by a call's own time" : " by kernel, copy and fill"))
    if (rows.length === 0) {
      setContent(work_part, title, element("p", {class: "gpuviz-muted"}, is_cpu ? "No call." : "No GPU activity."))
      return
    }
    const shown = shows_all_work ? rows : rows.slice(0, MOST_WORK_ROWS)
    const columns = [
      ["name", ""], [is_cpu ? "own time" : "time", "gpuviz-right"], ["share", "gpuviz-right"], ["count", "gpuviz-right"],
      ["p50", "gpuviz-right gpuviz-p50"], ["max", "gpuviz-right"],
    ]
    setContent(work_part, title, element("div", {class: "gpuviz-scroll"}, element("table", {class: "gpuviz-table"},
      element("thead", {}, element("tr", {}, ...columns.map(([label, name]) => element("th", {class: name, scope: "col"}, label)))),
      element("tbody", {}, ...shown.map((row) => workRow(row, total))))), moreButton(rows.length))
  }

  function workRow(row, total) {
    const cell = (...content) => element("td", {class: "gpuviz-right"}, ...content)
    return element("tr", {data: {node: row.node}},
      element("td", {class: "gpuviz-name-cell"}, element("span", {class: "gpuviz-name-line"}, swatch(theme.palette.by_name[row.layer]),
        plainButton(shortLabel(trace, printable(row.name), row.layer), printable(row.name), `${row.layer} ${row.name}`, () => actions.select_node(row.node, {zoom_flame: false})))),
      cell(exactNumber(durationText(row.time_ns), "ns", row.time_ns)),
      cell(shareCell(row.time_ns, total)),
      cell(exactNumber(countText(row.count), "count", row.count)),
      element("td", {class: "gpuviz-right gpuviz-p50"}, exactNumber(durationText(row.p50_ns), "ns", row.p50_ns)),
      cell(exactNumber(durationText(row.max_ns), "ns", row.max_ns)))
  }

  function moreButton(count) {
    if (count <= MOST_WORK_ROWS) return null
    const label = shows_all_work ? "Show fewer" : `Show all ${countText(count)}`
    return element("button", {type: "button", class: "gpuviz-plain gpuviz-more", data: {focus: "more"}, on: {click: () => {
      shows_all_work = !shows_all_work
      drawWork()
    }}}, label)
  }

  return {update}
}

/** `key` tells the button from its like, so that it keeps the focus when it is drawn anew. */
export function plainButton(text, title, key, on_click) {
  return element("button", {type: "button", class: "gpuviz-plain", title, data: {focus: key}, on: {click: on_click}}, text)
}

/** A bar as wide as a share, behind or beside a number. */
export function shareBar(share) {
  return element("span", {class: "gpuviz-bar", "aria-hidden": "true"}, element("span", {
    class: "gpuviz-bar-fill", style: {width: `${(100 * Math.min(1, share)).toFixed(1)}%`},
  }))
}

/** A share as a bar and as text of one width, so that the bars of a column stand below each other. */
export function shareCell(part, whole) {
  return [shareBar(whole ? part / whole : 0), element("span", {class: "gpuviz-share"}, shareText(part, whole))]
}

/** Rows of [label, content, key]; the key lets a program find the value. */
function definitionList(rows, extra = "") {
  return element("dl", {class: `gpuviz-grid ${extra}`}, ...rows.map(([label, content, key]) => element("div", {data: {value: key}},
    element("dt", {}, label), element("dd", {}, ...content))))
}
