// The skeleton of our own page area: where header, toolbar, plots and panels go.

import {element} from "./dom.mjs"

const NARROW = 600
const WIDE = 1650

const PLOT_LABELS = {
  flamegraph: "Flamegraph",
  timeline: "Timeline",
  copies: "Copy/compute overlap",
}

/** `names`: the views to show. Without any copy in the trace their view is one line of text. */
export function buildPage(names, with_copies) {
  const header = element("header", {class: "gpuviz-header"})
  const toolbar = element("div", {class: "gpuviz-toolbar", role: "toolbar", "aria-label": "Views"})
  const drawn_names = names.filter((name) => name !== "copies" || with_copies)
  const views = Object.fromEntries(drawn_names.map((name) => [name, buildView(name)]))
  const details = element("div", {class: "gpuviz-details"})
  const tooltip = element("div", {class: "gpuviz-tooltip", role: "tooltip", hidden: true})
  const copies_note = names.includes("copies") && !with_copies
    ? [element("p", {class: "gpuviz-no-copies gpuviz-muted", data: {view: "copies"}}, "This trace holds no copies.")] : []
  const app = element("div", {class: "gpuviz-app", data: {"lm-suppress-shortcuts": "true"}},
    header, toolbar, ...Object.values(views).map((view) => view.section), ...copies_note, details, tooltip)
  const isNarrow = () => app.clientWidth > 0 && app.clientWidth < NARROW
  const fitWidth = () => {
    app.classList.toggle("gpuviz-narrow", isNarrow())
    app.classList.toggle("gpuviz-wide", app.clientWidth >= WIDE)
  }
  return {app, header, toolbar, views, details, tooltip, isNarrow, fitWidth}
}

function buildView(name) {
  const title = element("div", {class: "gpuviz-title"})
  const figure = element("div", {class: "gpuviz-figure"})
  const lane_labels = element("div", {class: "gpuviz-lanes"})
  const plot = element("div", {
    class: "gpuviz-plot", tabindex: "0", role: "application", "data-lm-suppress-shortcuts": "true",
    "aria-label": `${PLOT_LABELS[name]}. W and S zoom, A and D move, arrow keys move the selection, N and P step through its `
      + "occurrences, X makes what is shown the window, slash searches, Escape goes back, question mark lists the keys.",
  }, figure, lane_labels)
  return {section: element("section", {class: "gpuviz-view", data: {view: name}}, title, plot), title, figure, lane_labels, plot}
}
