import assert from "node:assert/strict"
import {test} from "node:test"
import {createStore} from "../../../gpuviz/view/engine/store.mjs"
import {aggregate} from "../../../gpuviz/view/engine/tree.mjs"
import {makeTrace, randomTrace} from "./payloads.mjs"

function makeStore(trace = randomTrace(2)) {
  const changes = []
  const store = createStore(trace, (...what) => changes.push(what))
  return {...store, changes, told: () => changes.splice(0).flat()}
}

test("at the start everything is shown and nothing selected", () => {
  const {state, derived, trace} = makeStore()
  assert.deepEqual(state.view, [0, trace.end_ns])
  assert.equal(state.metric, "gpu")
  assert.equal(state.window, null)
  assert.equal(state.selected_node, null)
  assert.deepEqual(state.flame_range, [0, derived.tree.total])
})

test("a trace without GPU activities starts on CPU time and offers nothing else", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "op", name: "f"}], lanes: [{kind: "thread", rows: [[{start: 0, duration: 9, node: 1}]]}],
  })
  const {state, derived, actions} = makeStore(trace)
  assert.equal(state.metric, "cpu")
  assert.deepEqual(derived.metrics, ["cpu"])
  actions.set_metric("gpu")
  assert.equal(state.metric, "cpu")
})

test("an empty trace does not stumble", () => {
  const trace = makeTrace({nodes: [{parent: -1, layer: "root", name: "r"}], lanes: [], devices: []})
  const {actions, numbers, state} = makeStore(trace)
  actions.set_window([0, 1])
  actions.set_query("x")
  actions.select_node(0)
  actions.move_selection("down")
  actions.step_occurrence(1)
  actions.reset()
  assert.equal(numbers().tree.total, 0)
  assert.equal(state.selected_node, null)
})

test("a window is put in order, rounded to whole ns, kept inside the trace, and makes every sum anew", () => {
  const {state, actions, numbers, told, trace} = makeStore()
  actions.set_window([120.6, 30.4])
  assert.deepEqual(state.window, [30, 121])
  assert.ok(told().includes("window"))
  assert.deepEqual(numbers().tree.inclusive, [...aggregate(trace, "gpu", [30, 121]).inclusive])
  for (const row of numbers().device_time) assert.equal(row.span_ns, 91)
  actions.set_window([-500, 1e12])
  assert.deepEqual(state.window, [0, trace.end_ns])
  actions.set_window([50, 50.2])
  assert.equal(state.window, null)
})

test("selecting a frame zooms flamegraph and time, and clearing goes back to where the view was", () => {
  const {state, actions, derived} = makeStore()
  actions.set_view([10, 200])
  const node = derived.tree.inclusive.findIndex((value, index) => index > 0 && value > 0 && value < derived.tree.total)
  actions.select_node(node)
  assert.equal(state.selected_node, node)
  assert.equal(state.focus_node, node)
  assert.deepEqual(state.flame_range, [derived.left[node], derived.left[node] + derived.tree.inclusive[node]])
  actions.clear_selection()
  assert.deepEqual(state.view, [10, 200])
  assert.equal(state.focus_node, 0)
})

test("selecting an interval selects its call path and leaves the time view alone", () => {
  const {state, actions, trace} = makeStore()
  const view = [...state.view]
  actions.select_box(5)
  assert.equal(state.selected_node, trace.box_node[5])
  assert.deepEqual(state.view, view)
  actions.select_box(-1)
  assert.equal(state.selected_box, null)
})

test("what is lit: the selection, the search, or both", () => {
  const {actions, isLit, isDimming, trace} = makeStore()
  assert.equal(isDimming(), false)
  assert.ok(isLit()(0))
  actions.select_node(1)
  const lit = isLit()
  for (let box = 0; box < trace.box_count; box++) {
    const node = trace.box_node[box]
    assert.equal(lit(box), node >= 1 && node <= trace.node_last[1])
  }
  actions.reset()
  actions.set_query("aten::op0")
  assert.equal(isDimming(), true)
  const found = isLit()
  for (let box = 0; box < trace.box_count; box++) {
    let is_below = false
    for (let at = trace.box_node[box]; at >= 0; at = trace.node_parent[at]) is_below ||= trace.names[trace.frames.name[trace.node_frame[at]]] === "aten::op0"
    assert.equal(found(box), is_below)
  }
})

test("a query that is no regular expression matches nothing and says so", () => {
  const {actions, derived, told} = makeStore()
  actions.set_query("(")
  assert.ok(derived.query_error)
  assert.equal(derived.matched, 0)
  assert.ok(told().includes("query"))
  actions.set_query("")
  assert.equal(derived.query_error, null)
  assert.equal(derived.matched, null)
})

test("views stay within the trace and never get shorter than 20 ns", () => {
  const {state, actions, trace, told} = makeStore()
  actions.set_view([100, 101])
  assert.equal(state.view[1] - state.view[0], 20)
  actions.set_view([-1e9, 1e9])
  assert.deepEqual(state.view, [0, trace.end_ns])
  actions.set_view([trace.end_ns - 10, trace.end_ns + 5000])
  assert.ok(state.view[1] <= 1.02 * trace.end_ns)
  told()
  actions.set_view([...state.view])
  assert.deepEqual(told(), [], "no change, no redraw")
})

test("stepping back undoes selection, then window, then zoom", () => {
  const {state, actions, trace} = makeStore()
  actions.set_window([10, 300])
  actions.select_node(1)
  actions.step_back()
  assert.equal(state.selected_node, null)
  assert.deepEqual(state.window, [10, 300])
  actions.step_back()
  assert.equal(state.window, null)
  actions.set_view([10, 50])
  actions.step_back()
  assert.deepEqual(state.view, [0, trace.end_ns])
})

test("arrows move along the tree", () => {
  const {state, actions, trace, derived} = makeStore()
  actions.move_selection("down")
  const child = state.selected_node
  assert.equal(trace.node_parent[child], 0)
  const widest = Math.max(...derived.tree.inclusive.filter((_, node) => trace.node_parent[node] === 0))
  assert.equal(derived.tree.inclusive[child], widest)
  actions.move_selection("down")
  assert.equal(trace.node_parent[state.selected_node], child)
  actions.move_selection("up")
  assert.equal(state.selected_node, child)
  actions.move_selection("up")
  assert.equal(state.selected_node, null)
})

test("steps go through the occurrences of the selection, one by one", () => {
  const {state, actions, trace} = makeStore()
  actions.select_node(1, {zoom_view: false})
  actions.set_view([0, trace.end_ns])
  const visited = new Set()
  for (let i = 0; i < 5; i++) {
    actions.step_occurrence(1)
    assert.ok(trace.box_node[state.selected_box] >= 1 && trace.box_node[state.selected_box] <= trace.node_last[1])
    visited.add(state.selected_box)
  }
  assert.ok(visited.size >= 2)
  assert.equal(state.selected_node, 1)
})

test("after a search, steps go through the matches without a selection", () => {
  const {state, actions, trace, derived} = makeStore()
  actions.step_occurrence(1)
  assert.equal(state.selected_box, null)
  actions.set_query("^kernel_")
  actions.set_view([0, 20])
  const visited = []
  for (let i = 0; i < 100; i++) {
    actions.step_occurrence(1)
    if (visited[visited.length - 1] === state.selected_box) break
    visited.push(state.selected_box)
  }
  const found = [...trace.activities.order].filter((box) => derived.matches[trace.box_node[box]])
  found.sort((a, b) => trace.box_start[a] - trace.box_start[b] || a - b)
  assert.ok(visited.length > 3)
  assert.deepEqual(visited, found.slice(found.indexOf(visited[0])))
})

test("what is shown becomes the window", () => {
  const {state, actions} = makeStore()
  actions.set_view([12.4, 99.6])
  actions.set_window_to_view()
  assert.deepEqual(state.window, [12, 100])
})

test("reset brings back the start", () => {
  const {state, actions, derived, trace} = makeStore()
  actions.set_window([10, 100])
  actions.set_query("op")
  actions.select_node(2)
  actions.reset()
  assert.deepEqual([state.window, state.query, state.selected_node, state.focus_node], [null, "", null, 0])
  assert.deepEqual(state.view, [0, trace.end_ns])
  assert.deepEqual(state.flame_range, [0, derived.tree.total])
})

test("a metric in which the zoomed frame has no width zooms out to a caller that has", () => {
  const {state, actions, trace, derived} = makeStore()
  const kernel = trace.node_layer.findIndex((layer, node) => trace.layers[layer] === "kernel" && derived.tree.inclusive[node] > 0)
  actions.select_node(kernel)
  actions.set_metric("cpu")
  assert.ok(derived.tree.inclusive[state.focus_node] > 0)
  assert.equal(state.selected_node, kernel, "the selection itself stays")
})
