// Time per source line: the lines that cost most, and the notebook cells' source with each line's time.

import {element, exactNumber, setContent} from "./dom.mjs"
import {METRIC_NAMES, METRIC_NOUNS, countText, plainMetricText, pluralText, printable} from "./text.mjs"
import {joinCallers, rankLines, sumLines} from "./lines.mjs"
import {frameLabel} from "./trace.mjs"
import {plainButton, shareBar, shareCell} from "./details.mjs"

const MOST_LINES = 12

export function createSource({store, panel}) {
  const {trace, state, derived, actions} = store
  const lines_part = element("section", {class: "gpuviz-lines"})
  const text_part = element("section", {class: "gpuviz-source"})
  panel.append(lines_part)
  panel.after(text_part)
  let shows_all = false
  const has_lines = derived.line_index.lines.length > 0
  lines_part.hidden = !has_lines
  text_part.hidden = !trace.sources.some((source) => source.lines.length > 0)

  function update(changed) {
    if (!["selection", "window", "metric", "theme"].some((what) => changed.has(what))) return
    if (has_lines) drawLines()
    if (!text_part.hidden) drawSources()
  }

  function kind() {
    return state.metric === "launches" ? "count" : "ns"
  }

  function drawLines() {
    const node = state.selected_node ?? 0
    const ranked = rankLines(derived.line_index, sumLines(trace, derived.line_index, derived.tree.inclusive, node))
    const whole = derived.tree.inclusive[node]
    const title = element("h4", {}, `${METRIC_NAMES[state.metric]} by source line`,
      element("span", {class: "gpuviz-muted"}, " with all that it calls"))
    if (ranked.length === 0) {
      setContent(lines_part, title, element("p", {class: "gpuviz-muted"}, "No source line is known at or below it."))
      return
    }
    const joined = shows_all ? ranked.map((line) => ({...line, callers: []})) : joinCallers(trace, ranked)
    const shown = shows_all ? joined : joined.slice(0, MOST_LINES)
    const rows = shown.map((line) => element("tr", {data: {node: line.node}},
      element("td", {class: "gpuviz-name-cell"}, lineName(line)),
      element("td", {class: "gpuviz-right"}, exactNumber(plainMetricText(state.metric, line.value), kind(), line.value)),
      element("td", {class: "gpuviz-right"}, shareCell(line.value, whole))))
    const table = element("table", {class: "gpuviz-table"}, element("thead", {}, element("tr", {},
      element("th", {scope: "col"}, "line"),
      element("th", {class: "gpuviz-right", scope: "col"}, state.metric === "launches" ? "GPU activities" : "time"),
      element("th", {class: "gpuviz-right", scope: "col"}, "share"))), element("tbody", {}, ...rows))
    setContent(lines_part, title, table, shown.length < ranked.length || shows_all ? moreButton(ranked.length) : null)
  }

  function lineName({place, node, callers}) {
    const full = [place, ...callers.map((caller) => caller.place)].map(printable).join("\n")
    return element("span", {class: "gpuviz-name-line"},
      plainButton(shortPlace(place), full, place, () => actions.select_node(node)),
      element("span", {class: "gpuviz-muted gpuviz-function"}, frameLabel(trace, node)),
      callers.length ? element("span", {class: "gpuviz-muted gpuviz-callers", title: full}, `+ ${pluralText(callers.length, "caller")}`) : null)
  }

  function moreButton(count) {
    const button = plainButton(shows_all ? "Show fewer" : `Show all ${countText(count)} lines`, "", "more", () => {
      shows_all = !shows_all
      drawLines()
    })
    button.classList.add("gpuviz-more")
    return button
  }

  // The end of a path says more than its beginning; the whole path is in the title.
  function shortPlace(place) {
    const parts = printable(place).split("/")
    const is_package = /^__init__\.py/.test(parts[parts.length - 1])
    return parts.slice(is_package ? -2 : -1).join("/")
  }

  function drawSources() {
    const scrolled = [...text_part.querySelectorAll(".gpuviz-code")].map((code) => code.scrollTop)
    const sums = sumLines(trace, derived.line_index, derived.tree.inclusive, 0)
    const at = new Map(derived.line_index.lines.map((line, index) => [`${line.cell}:${line.line}`, index]))
    const highest = Math.max(1, ...derived.line_index.lines.map((line, index) => (line.cell >= 0 ? sums.value[index] : 0)))
    const selected = state.selected_node === null ? -1 : derived.line_index.of_frame[trace.node_frame[state.selected_node]]
    setContent(text_part,
      element("h4", {}, "Source", element("span", {class: "gpuviz-muted"}, ` with each line's ${METRIC_NOUNS[state.metric]}; click a line to select it`)),
      ...trace.sources.map((source, cell) => ({source, cell})).filter(({source}) => source.lines.length).map(({source, cell}) =>
        element("div", {class: "gpuviz-cell"}, element("div", {class: "gpuviz-cell-label"}, printable(source.label)),
          element("div", {class: "gpuviz-code", role: "list"}, ...source.lines.map((text, index) => {
            const line = at.get(`${cell}:${index + 1}`)
            return sourceLine(text, index + 1, `${cell}:${index + 1}`, line === undefined ? null : {
              value: sums.value[line], node: sums.busiest[line], share: sums.value[line] / highest, is_selected: line === selected,
            })
          })))))
    for (const [index, code] of text_part.querySelectorAll(".gpuviz-code").entries()) {
      code.scrollTop = scrolled[index] ?? firstTimedLine(code)
    }
  }

  // A long cell begins at the first line that has a time, with a little of what comes before it.
  function firstTimedLine(code) {
    const line = code.querySelector("[data-line]")
    return line ? line.offsetTop - code.offsetTop - 2.5 * line.offsetHeight : 0
  }

  function sourceLine(text, number, key, found) {
    const has_time = found !== null && found.value > 0
    const content = [
      element("span", {class: "gpuviz-line-time"}, has_time ? exactNumber(plainMetricText(state.metric, found.value), kind(), found.value) : ""),
      element("span", {class: "gpuviz-line-bar"}, has_time ? shareBar(found.share) : ""),
      element("span", {class: "gpuviz-line-number"}, String(number)),
      element("code", {}, printable(text) || " "),
    ]
    if (!has_time) return element("div", {class: "gpuviz-line", role: "listitem"}, ...content)
    return element("div", {class: `gpuviz-line ${found.is_selected ? "gpuviz-is-selected" : ""}`, role: "listitem", data: {line: number}},
      element("button", {type: "button", class: "gpuviz-line-button", data: {focus: key}, on: {click: () => actions.select_node(found.node)}}, ...content))
  }

  return {update}
}
