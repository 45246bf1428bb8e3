// Above the plots: what was captured, how busy each device was, and what is known to be missing.

import {element, exactNumber, modelledBadge, setContent} from "./dom.mjs"
import {countText, durationText, pluralText, printable, shareText} from "./text.mjs"

export function createHeader({store, place, theme}) {
  const {trace, derived, state} = store
  const {meta} = trace
  const chips = element("div", {class: "gpuviz-devices"})
  place.append(
    element("div", {class: "gpuviz-headline"},
      element("h3", {}, printable(meta.title || "GPU trace")),
      modelledBadge(meta),
      element("span", {class: "gpuviz-muted"}, printable(meta.subtitle ?? "")),
      notesDisclosure(meta.notes ?? []),
      factsDisclosure(meta.facts ?? [])),
    meta.left_out ? element("div", {class: "gpuviz-left-out", role: "note"}, printable(meta.left_out)) : "",
    chips)

  function update(changed) {
    if (!changed.has("window") && !changed.has("theme")) return
    const busy_devices = derived.device_time.filter((row) => row.span_ns !== null)
    const nothing = trace.activities.count === 0 ? "No GPU activity in this trace: times are those of the host." : null
    chips.hidden = busy_devices.length === 0 && nothing === null
    setContent(chips, nothing && element("span", {class: "gpuviz-muted"}, nothing), busy_devices.map(deviceChip))
  }

  function deviceChip(row) {
    const parts = [
      ["compute", row.kernel_ns, theme.palette.by_name.kernel, "kernel-ns"],
      ["exposed copy", row.exposed_copy_ns, theme.palette.exposed, "exposed-copy-ns"],
      ["memset", row.exposed_memset_ns, theme.palette.by_name.memset, "exposed-memset-ns"],
      ["idle", row.idle_ns, theme.palette.surface.unselected, "idle-ns"],
    ].filter(([label, value]) => value > 0 || label === "compute" || label === "idle")
    const title = `${row.label}: compute + exposed copy + exposed memset + idle = ${durationText(row.span_ns)}, `
      + (state.window ? "the window" : "from its first activity to its last")
    // Kernels inside a graph replay that were not recorded are missing from busy time.
    const is_bound = (meta.notes ?? []).some((note) => note.code === "graph_replay_without_kernels")
    return element("div", {class: "gpuviz-device", title, data: {device: row.device}},
      element("div", {class: "gpuviz-device-name"}, printable(row.label)),
      element("div", {class: "gpuviz-device-busy"}, element("b", {data: {"busy-ns": row.busy_ns, "span-ns": row.span_ns}}, `${is_bound ? "≥ " : ""}${shareText(row.busy_ns, row.span_ns)}`),
        ` busy of ${state.window ? "the window's" : "its"} ${durationText(row.span_ns)}`,
        element("span", {class: "gpuviz-muted"}, state.window ? "" : ` (first to last activity; the trace has ${durationText(trace.end_ns)})`,
          is_bound ? " graph replays lack their kernels" : "")),
      element("div", {class: "gpuviz-stack", "aria-hidden": "true"}, ...parts.map(([, value, color]) =>
        element("span", {style: {width: `${(100 * value) / (row.span_ns || 1)}%`, background: color}}))),
      element("div", {class: "gpuviz-device-parts"}, ...parts.map(([label, value, color, key]) => element("span", {},
        element("span", {class: "gpuviz-swatch", style: {background: color}}), `${label} `, exactNumber(durationText(value), key, value)))))
  }

  return {update}
}

function notesDisclosure(notes) {
  if (notes.length === 0) return null
  const rows = notes.map(({code, count, effect, example}) => element("tr", {},
    element("td", {}, element("code", {}, printable(code))),
    element("td", {class: "gpuviz-right"}, countText(count)),
    element("td", {class: "gpuviz-wrap"}, printable(effect ?? "")),
    element("td", {class: "gpuviz-wrap gpuviz-muted"}, printable(example ?? ""))))
  const headings = ["note", "count", "effect", "first example"]
  return element("details", {class: "gpuviz-disclosure gpuviz-notes"},
    element("summary", {}, pluralText(notes.length, "note")),
    element("div", {class: "gpuviz-sheet"}, element("table", {class: "gpuviz-table"},
      element("thead", {}, element("tr", {}, ...headings.map((label) => element("th", {scope: "col"}, label)))),
      element("tbody", {}, ...rows))))
}

function factsDisclosure(facts) {
  if (facts.length === 0) return null
  return element("details", {class: "gpuviz-disclosure gpuviz-facts"},
    element("summary", {}, "about"),
    element("div", {class: "gpuviz-sheet"}, element("dl", {class: "gpuviz-grid"}, ...facts.flatMap(([label, text]) => [
      element("dt", {}, printable(String(label))), element("dd", {class: "gpuviz-wrap"}, printable(String(text))),
    ]))))
}
