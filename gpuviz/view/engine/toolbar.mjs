// Search, switches, legend and the sheet of keys.

import {element, setContent, swatch} from "./dom.mjs"
import {METRIC_NAMES} from "./text.mjs"
import {LAYER_LABELS} from "./palette.mjs"

const KEYS = [
  ["W S", "zoom in, out"],
  ["A D", "move left, right"],
  ["N P", "next, previous occurrence of the selection or search match"],
  ["X", "make what the timeline shows the window"],
  ["↑ ↓ ← →", "move the selection in the flamegraph"],
  ["Enter", "zoom to the selection"],
  ["Esc", "one step back: selection, window, zoom"],
  ["0", "reset everything"],
  ["/", "search"],
  ["Ctrl + wheel", "zoom at the pointer"],
  ["Shift + drag", "move instead of selecting"],
  ["?", "show or hide this sheet"],
]

export function createToolbar({store, place, theme}) {
  const {trace, state, derived, actions} = store
  const search = element("input", {
    type: "search", class: "gpuviz-search", placeholder: "Search (regex)", "aria-label": "Search frames by regular expression",
    spellcheck: "false", on: {input: () => actions.set_query(search.value)},
  })
  const complaint = element("span", {class: "gpuviz-complaint", role: "status"})
  const metric = makeSwitch("Metric", derived.metrics.map((name) => [name, METRIC_NAMES[name]]), actions.set_metric)
  const drag = makeSwitch("Dragging in the timeline", [["select", "Select"], ["pan", "Move"]], actions.set_drag_mode)
  const legend = element("div", {class: "gpuviz-legend", "aria-label": "Colours"})
  const keys_button = element("button", {
    type: "button", class: "gpuviz-button gpuviz-round", title: "Keys", "aria-label": "Show the keys", "aria-expanded": "false",
    on: {click: () => actions.toggle_keys()},
  }, "?")
  const keys = element("div", {class: "gpuviz-keys", hidden: true}, element("dl", {class: "gpuviz-grid"},
    ...KEYS.flatMap(([key, meaning]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, meaning)])))
  place.append(
    element("div", {class: "gpuviz-search-box"}, search, complaint),
    derived.metrics.length > 1 ? metric.node : "", drag.node,
    element("button", {type: "button", class: "gpuviz-button", on: {click: actions.reset}, title: "Whole trace, nothing selected (0)"}, "Reset"),
    legend, keys_button, keys,
  )

  function update(changed) {
    if (changed.has("query")) {
      if (search.value !== state.query) search.value = state.query
      complaint.textContent = derived.query_error ?? ""
      search.setAttribute("aria-invalid", String(Boolean(derived.query_error)))
    }
    if (changed.has("metric")) metric.show(state.metric)
    if (changed.has("drag_mode")) drag.show(state.drag_mode)
    if (changed.has("theme")) drawLegend()
    if (changed.has("keys")) {
      keys.hidden = !state.show_keys
      keys_button.setAttribute("aria-expanded", String(state.show_keys))
    }
  }

  // Only layers that occur; the root is its own label.
  function drawLegend() {
    const seen = new Set([...trace.box_layer, ...trace.node_layer])
    const occurring = trace.layers.filter((layer, index) => seen.has(index) && layer !== "root")
    setContent(legend, ...occurring.map((layer) => element("span", {class: "gpuviz-legend-entry"},
      swatch(theme.palette.by_name[layer]), LAYER_LABELS[layer] ?? layer)))
  }

  return {update, focusSearch: () => { search.focus(); search.select() }}
}

function makeSwitch(label, choices, on_choose) {
  const buttons = choices.map(([value, text]) => element("button", {
    type: "button", class: "gpuviz-button", data: {value}, on: {click: () => on_choose(value)},
  }, text))
  return {
    node: element("div", {class: "gpuviz-switch", role: "group", "aria-label": label}, ...buttons),
    show: (chosen) => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === chosen))),
  }
}
