// The state of one page and the only ways to change it. An input calls an action, the action changes the state and
// reports what changed, and whoever listens redraws. No DOM, no time: this file runs under Node.

import {boxesBelow, isActivity} from "./trace.mjs"
import {buildCovers, copyTime, deviceTime} from "./sums.mjs"
import {METRICS, aggregate, layoutTree, matchedTotal, spreadDown, statisticsOfNode} from "./tree.mjs"
import {TOO_SLOW, compileQuery, matchNodes} from "./search.mjs"
import {contextOf, flameRows} from "./flame_rows.mjs"
import {indexLines} from "./lines.mjs"
import {busiestCluster, nextOccurrence, occurrencesOf, occurrencesOfMatches} from "./occurrences.mjs"

/** The shortest view in ns: below it a pixel would be less than the clock tells. */
const SHORTEST_VIEW = 20
const OVERSHOOT = 0.02

export function createStore(trace, notify = () => {}) {
  const covers = buildCovers(trace)
  const line_index = indexLines(trace)
  const metrics = METRICS.filter((metric) => (metric === "cpu" ? trace.calls.count : trace.activities.count) > 0)
  const state = {
    view: [...trace.extent],
    window: null,
    selected_node: null,
    selected_box: null,
    focus_node: 0,
    flame_range: [0, 1],
    glides: false,
    flame_glides: false,
    metric: metrics[0] ?? "cpu",
    query: "",
    drag_mode: "select",
    expanded_lanes: new Set(),
    view_before_selection: null,
    steps_matches: false,
    hover: null,
    show_keys: false,
  }
  const derived = {covers, line_index, metrics, recompute_ms: 0}
  const store = {trace, state, derived}
  recompute()
  showFocus(0)

  function recompute() {
    const begin = performance.now()
    derived.tree = aggregate(trace, state.metric, state.window)
    derived.left = layoutTree(trace, derived.tree.inclusive)
    derived.device_time = deviceTime(trace, covers, state.window)
    derived.copy_time = copyTime(trace, covers, state.window)
    derived.statistics = new Map()
    search()
    derived.recompute_ms = performance.now() - begin
  }

  function search() {
    const {pattern, error} = compileQuery(state.query)
    derived.is_searching = Boolean(state.query)
    // A query that is not a regular expression, or takes too long, matches nothing, and the search box says so.
    const found = derived.is_searching ? matchNodes(trace, pattern) : null
    derived.query_error = derived.is_searching && found === null ? TOO_SLOW : error
    derived.matches = derived.is_searching ? found ?? new Uint8Array(trace.node_count) : null
    derived.matched = derived.matches ? matchedTotal(trace, derived.tree.inclusive, derived.matches) : null
    derived.below_match = derived.matches ? spreadDown(trace, derived.matches) : null
  }

  function arrangeFlame() {
    derived.rows = flameRows(trace, derived.tree, {
      focus: state.focus_node, selected: state.selected_node, matches: derived.matches,
    })
  }

  /** Zooms the flamegraph to a frame; one that has no width here gives way to the nearest caller that has. */
  function showFocus(node) {
    while (node > 0 && derived.tree.inclusive[node] <= 0) node = trace.node_parent[node]
    state.focus_node = node
    state.flame_range = focusRange()
    state.flame_glides = true
    arrangeFlame()
  }

  function focusRange() {
    const from = derived.left[state.focus_node]
    return [from, from + (derived.tree.inclusive[state.focus_node] || 1)]
  }

  function rememberView() {
    state.view_before_selection ??= state.view
  }

  function clampView([from, to]) {
    const lowest = -OVERSHOOT * trace.end_ns
    const highest = (1 + OVERSHOOT) * trace.end_ns
    const span = Math.min(Math.max(to - from, SHORTEST_VIEW), highest - lowest)
    const middle = (from + to) / 2
    const start = Math.min(Math.max(middle - span / 2, lowest), highest - span)
    // Zooming all the way out ends at the trace itself, not at the margin around it.
    return span > trace.end_ns ? [Math.max(start, 0), Math.min(start + span, trace.end_ns)] : [start, start + span]
  }

  function middleOf(box) {
    return trace.box_start[box] + trace.box_duration[box] / 2
  }

  /** Where a step to the next occurrence sets out: the selected one while it is in view, else the middle of the view. */
  function stepFrom() {
    const [from, to] = state.view
    const box = state.selected_box
    if (box !== null && middleOf(box) >= from && middleOf(box) <= to) return {box, time: middleOf(box)}
    return {box: null, time: (from + to) / 2}
  }

  const actions = {
    /** Selects everything at or below a node; null or the root clears the selection. */
    select_node(node, {zoom_view = true, zoom_flame = true} = {}) {
      if (!node) return actions.clear_selection()
      state.selected_node = node
      state.selected_box = null
      state.steps_matches = false
      showFocus(zoom_flame ? node : contextOf(trace, derived.tree, node, state.focus_node))
      const cluster = zoom_view ? busiestCluster(trace, occurrencesOf(trace, node, state.window), state.window) : null
      if (cluster) {
        rememberView()
        state.view = clampView(cluster)
        state.glides = true
      }
      notify("selection", "view")
    },

    /** Selects one interval and its call path; the view stays where it is. */
    select_box(box) {
      if (box === null || box < 0) return actions.clear_selection()
      state.selected_box = box
      state.steps_matches = false
      state.selected_node = trace.box_node[box] > 0 ? trace.box_node[box] : null
      showFocus(state.selected_node ? contextOf(trace, derived.tree, state.selected_node, state.focus_node) : 0)
      notify("selection")
    },

    clear_selection() {
      state.steps_matches = false
      state.selected_node = null
      state.selected_box = null
      if (state.view_before_selection) state.view = state.view_before_selection
      state.view_before_selection = null
      state.glides = true
      showFocus(0)
      notify("selection", "view")
    },

    /** Zooms the flamegraph to the selected frame, or back out. */
    zoom_to_selection() {
      if (state.selected_node !== null) actions.select_node(state.selected_node)
    },

    /** Moves the selection in the flamegraph: "up" to the caller, "down" to the widest callee, "left", "right". */
    move_selection(direction) {
      const node = neighbourOf(trace, derived.tree, state.selected_node ?? state.focus_node, direction)
      if (node === null) return
      if (node === 0) return actions.clear_selection()
      actions.select_node(node, {zoom_view: false, zoom_flame: false})
    },

    /** [from, to] in ns, rounded to whole ns, or null for the whole trace. Every sum is made anew. */
    set_window(window) {
      state.window = window ? cleanWindow(window, trace.end_ns) : null
      recompute()
      showFocus(state.focus_node)
      notify("window", "selection")
    },

    /** Makes what the time axes show the window. */
    set_window_to_view() {
      actions.set_window(state.view)
    },

    set_metric(metric) {
      if (!metrics.includes(metric) || metric === state.metric) return
      state.metric = metric
      recompute()
      showFocus(state.focus_node)
      notify("metric", "selection")
    },

    set_query(query) {
      state.query = query
      search()
      arrangeFlame()
      notify("query")
    },

    /** [from, to] in ns on the time axes. `glides`: whether the views move there in several frames. */
    set_view(view, {glides = false} = {}) {
      const clamped = clampView(view)
      if (clamped[0] === state.view[0] && clamped[1] === state.view[1]) return
      state.view = clamped
      state.glides = glides
      notify("view")
    },

    set_flame_range([from, to], {glides = false} = {}) {
      const [lowest, highest] = focusRange()
      const span = Math.min(to - from, highest - lowest)
      const start = Math.min(Math.max(from, lowest), highest - span)
      if (start === state.flame_range[0] && start + span === state.flame_range[1]) return
      state.flame_range = [start, start + span]
      state.flame_glides = glides
      notify("flame_range")
    },

    /** Goes to the next (1) or previous (-1) occurrence of the selection or, without one, of what the search found. */
    step_occurrence(direction) {
      const steps_matches = derived.matches !== null && (state.selected_node === null || state.steps_matches)
      if (state.selected_node === null && !steps_matches) return
      const occurrences = steps_matches ? occurrencesOfMatches(trace, derived.matches, state.window)
        : occurrencesOf(trace, state.selected_node, state.window)
      const box = nextOccurrence(trace, occurrences, stepFrom(), direction)
      if (box < 0) return
      rememberView()
      const centre = middleOf(box)
      const span = Math.min(state.view[1] - state.view[0], Math.max(SHORTEST_VIEW, 12 * trace.box_duration[box]))
      state.view = clampView([centre - span / 2, centre + span / 2])
      state.glides = true
      if (steps_matches) {
        actions.select_box(box)
        state.steps_matches = true
      } else {
        state.selected_box = box
      }
      notify("selection", "view")
    },

    toggle_lane(lane) {
      if (!state.expanded_lanes.delete(lane)) state.expanded_lanes.add(lane)
      notify("lanes")
    },

    set_drag_mode(mode) {
      state.drag_mode = mode
      notify("drag_mode")
    },

    set_hover(hover) {
      if (hover === null && state.hover === null) return
      state.hover = hover
      notify("hover")
    },

    toggle_keys(show = !state.show_keys) {
      if (show === state.show_keys) return
      state.show_keys = show
      notify("keys")
    },

    /** One step out: first the selection, then the window, then the zoom. */
    step_back() {
      if (state.show_keys) actions.toggle_keys(false)
      else if (state.selected_node !== null || state.selected_box !== null) actions.clear_selection()
      else if (state.window) actions.set_window(null)
      else actions.reset()
    },

    reset() {
      Object.assign(state, {
        window: null, selected_node: null, selected_box: null, query: "", view: [...trace.extent],
        view_before_selection: null, focus_node: 0, glides: true, steps_matches: false,
      })
      recompute()
      showFocus(0)
      notify("window", "selection", "query", "view")
    },
  }

  store.actions = actions

  /** Numbers of a node for the present window and metric, computed when first asked for. */
  store.statistics = (node) => {
    if (!derived.statistics.has(node)) derived.statistics.set(node, statisticsOfNode(trace, derived.tree, node))
    return derived.statistics.get(node)
  }

  /** Tells the boxes that are selected and found by the search from the others. */
  store.isLit = () => {
    const {selected_node, selected_box} = state
    const {box_node} = trace
    const {below_match} = derived
    const is_found = below_match ? (box) => box_node[box] >= 0 && below_match[box_node[box]] === 1 : () => true
    if (selected_node === null) return selected_box === null ? is_found : (box) => box === selected_box
    const last = trace.node_last[selected_node]
    return (box) => box_node[box] >= selected_node && box_node[box] <= last && is_found(box)
  }

  /** Whether anything is shown in grey. */
  store.isDimming = () => state.selected_node !== null || state.selected_box !== null || derived.below_match !== null

  /** What the selected interval is tied to: {launch, activities}. */
  store.linksOfBox = (box) => {
    if (isActivity(trace, box)) return {launch: trace.box_launch[box], activities: []}
    const node = trace.box_node[box]
    const below = node >= 0 ? boxesBelow(trace, trace.activities, node) : []
    return {launch: -1, activities: Array.from(below).filter((activity) => trace.box_launch[activity] === box)}
  }

  store.numbers = () => ({
    device_time: derived.device_time,
    copy_time: derived.copy_time,
    tree: {
      inclusive: Array.from(derived.tree.inclusive), exclusive: Array.from(derived.tree.exclusive), total: derived.tree.total,
    },
    matched: derived.matched,
    selected: store.statistics(state.selected_node ?? 0),
  })

  return store
}

function cleanWindow([from, to], end_ns) {
  const first = Math.round(Math.min(Math.max(0, Math.min(from, to)), end_ns))
  const last = Math.round(Math.min(Math.max(0, Math.max(from, to)), end_ns))
  return last > first ? [first, last] : null
}

/** The frame next to `node` in the flamegraph, among those with a value; null if there is none. */
function neighbourOf({node_parent, node_last}, {inclusive}, node, direction) {
  if (direction === "up") return node > 0 ? node_parent[node] : null
  if (direction === "down") {
    let widest = null
    for (let child = node + 1; child <= node_last[node]; child = node_last[child] + 1) {
      if (inclusive[child] > 0 && (widest === null || inclusive[child] > inclusive[widest])) widest = child
    }
    return widest
  }
  if (node === 0) return null
  const parent = node_parent[node]
  const siblings = []
  for (let child = parent + 1; child <= node_last[parent]; child = node_last[child] + 1) {
    if (inclusive[child] > 0 || child === node) siblings.push(child)
  }
  return siblings[siblings.indexOf(node) + (direction === "right" ? 1 : -1)] ?? null
}
