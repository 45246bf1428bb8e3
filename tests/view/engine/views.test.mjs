import assert from "node:assert/strict"
import {test} from "node:test"
import {aggregate, layoutTree} from "../../../gpuviz/view/engine/tree.mjs"
import {chainMembers, contextOf, flameRows, visibleFrames} from "../../../gpuviz/view/engine/flame_rows.mjs"
import {FULL_ROW, layoutLanes, rowAt, shownLabel} from "../../../gpuviz/view/engine/lanes.mjs"
import {busiestCluster, nextOccurrence, occurrencesOf} from "../../../gpuviz/view/engine/occurrences.mjs"
import {makePalette, textOn} from "../../../gpuviz/view/engine/palette.mjs"
import {LAYERS, makeTrace, randomTrace} from "./payloads.mjs"

// root → p1 → … → p6 → op → kernel, all of one width
const chain_trace = () => makeTrace({
  nodes: [
    {parent: -1, layer: "root", name: "root"},
    ...Array.from({length: 6}, (_, i) => ({parent: i, layer: "python", name: `p${i + 1}`})),
    {parent: 6, layer: "op", name: "op"}, {parent: 7, layer: "kernel", name: "k"},
  ],
  lanes: [{kind: "stream", device: 0, rows: [[{start: 0, duration: 10, node: 8}]]}],
})

const rowsFor = (trace, options) => {
  const tree = aggregate(trace, "gpu", null)
  return {tree, rows: flameRows(trace, tree, {focus: 0, selected: null, matches: null, ...options})}
}

test("a run of Python frames that only call the next shares a row", () => {
  const trace = chain_trace()
  const {rows} = rowsFor(trace, {})
  assert.deepEqual([...rows.row], [0, 1, -1, -1, -1, -1, -1, 2, 3])
  assert.deepEqual(chainMembers(trace, rows, 1), [1, 2, 3, 4, 5, 6])
  assert.deepEqual(chainMembers(trace, rows, 7), [7])
})

test("the selected frame and search matches keep rows of their own", () => {
  const trace = chain_trace()
  assert.deepEqual([...rowsFor(trace, {selected: 6}).rows.row], [0, 1, -1, -1, -1, -1, 2, 3, 4])
  const matches = new Uint8Array(trace.node_count)
  matches[3] = 1
  assert.deepEqual([...rowsFor(trace, {matches}).rows.row], [0, 1, 2, 3, 4, 5, 6, 7, 8])
})

test("zoomed in, the callers share the first row", () => {
  const trace = chain_trace()
  const {rows} = rowsFor(trace, {focus: 6, selected: 6})
  assert.deepEqual([...rows.row], [-1, -1, -1, -1, -1, -1, 1, 2, 3])
})

test("frames in sight are those wide enough within the range", () => {
  const trace = randomTrace(4)
  const {tree, rows} = rowsFor(trace, {})
  const left = layoutTree(trace, tree.inclusive)
  const [from, to] = [0.2 * tree.total, 0.6 * tree.total]
  const {nodes} = visibleFrames(trace, tree, left, rows, {focus: 0, from, to, least: 3})
  for (let node = 0; node < trace.node_count; node++) {
    const is_seen = tree.inclusive[node] >= 3 && left[node] + tree.inclusive[node] > from && left[node] < to
    assert.equal(nodes.includes(node), is_seen, `node ${node}`)
  }
})

test("a frame is shown among its neighbours", () => {
  const trace = randomTrace(4)
  const tree = aggregate(trace, "gpu", null)
  for (let node = 1; node < trace.node_count; node++) {
    if (tree.inclusive[node] === 0) continue
    const context = contextOf(trace, tree, node, 0)
    assert.ok(node >= context && node <= trace.node_last[context])
    assert.ok(tree.inclusive[node] >= 0.05 * tree.inclusive[context])
  }
})

const deep_trace = (thread_rows, streams = 2) => makeTrace({
  nodes: [{parent: -1, layer: "root", name: "root"}, {parent: 0, layer: "python", name: "f"}, {parent: 1, layer: "kernel", name: "k"}],
  lanes: [
    ...Array.from({length: streams}, (_, i) => ({kind: "stream", label: `GPU 0 stream ${i}`, device: 0, rows: [[{start: i, duration: 5, node: 2}]]})),
    {kind: "range", label: "thread 7 (main) · ranges", rows: [[{start: 0, duration: 9, name: "step"}]]},
    {kind: "thread", label: "thread 7 (main)", rows: Array.from({length: thread_rows}, (_, i) => [{start: i, duration: 500 - 2 * i, node: 1}])},
  ],
})

test("deep threads are squeezed until they are expanded", () => {
  const trace = deep_trace(40)
  const closed = layoutLanes(trace, {expanded: new Set(), inside: false})
  assert.ok(closed.height <= 420)
  const thread = closed.lanes[3]
  assert.ok(thread.expandable && !thread.is_expanded)
  const open = layoutLanes(trace, {expanded: new Set([3]), inside: false})
  assert.equal(open.row_height[trace.lanes[3].first_row], FULL_ROW)
  assert.ok(open.height > closed.height)
})

test("rows do not overlap, lie within their lane, and are found by their place", () => {
  for (const [rows, streams, inside] of [[3, 1, false], [40, 2, true], [5, 60, false]]) {
    const trace = deep_trace(rows, streams)
    const layout = layoutLanes(trace, {expanded: new Set(), inside})
    let bottom = 0
    for (const place of layout.lanes) {
      assert.ok(place.top >= bottom)
      bottom = place.top + place.height
      const lane = trace.lanes[place.index]
      for (let row = lane.first_row; row < lane.first_row + lane.row_count; row++) {
        assert.ok(layout.row_top[row] >= place.top + place.strip - 1e-9)
        assert.ok(layout.row_top[row] + layout.row_height[row] <= bottom + 1e-9)
        assert.equal(rowAt(trace, layout, layout.row_top[row] + layout.row_height[row] / 2), row)
      }
    }
    assert.ok(layout.height >= bottom)
    assert.equal(rowAt(trace, layout, -5), -1)
  }
})

test("devices and host have headings, and labels do not repeat them", () => {
  const trace = deep_trace(3)
  const layout = layoutLanes(trace, {expanded: new Set(), inside: false})
  assert.deepEqual(layout.headings.map((heading) => heading.label), ["GPU 0", "Host"])
  assert.deepEqual(trace.lanes.map((lane) => shownLabel(trace, layout, lane)), ["stream 0", "stream 1", "ranges · thread 7 (main)", "thread 7 (main)"])
})

test("the busiest cluster has the most work; stepping visits every occurrence", () => {
  const boxes = [0, 10, 20, 5000, 5010, 5020, 5030, 9000].map((start) => ({start, duration: 5, node: 1}))
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "kernel", name: "k"}],
    lanes: [{kind: "stream", device: 0, rows: [boxes]}], meta: {end_ns: 10000},
  })
  const occurrences = occurrencesOf(trace, 1, null)
  const [from, to] = busiestCluster(trace, occurrences, null)
  assert.ok(from < 5000 && from > 4900 && to > 5035 && to < 5100)
  const visited = []
  let at = {box: null, time: -1}
  for (let box = nextOccurrence(trace, occurrences, at, 1); box >= 0; box = nextOccurrence(trace, occurrences, at, 1)) {
    visited.push(box)
    at = {box, time: trace.box_start[box] + trace.box_duration[box] / 2}
  }
  assert.deepEqual(visited, [0, 1, 2, 3, 4, 5, 6, 7])
  assert.equal(nextOccurrence(trace, occurrences, {box: null, time: 5022.5}, -1), 4)
  assert.equal(busiestCluster(trace, occurrencesOf(trace, 1, [100, 200]), [100, 200]), null)
})

test("stepping visits occurrences with the same times on several streams, there and back", () => {
  const row = () => [[0, 10, 500].map((start) => ({start, duration: 6, node: 1}))]
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "kernel", name: "k"}],
    lanes: [0, 1, 2].map((index) => ({kind: "stream", label: `s${index}`, device: 0, rows: [row()[0]]})),
  })
  const occurrences = occurrencesOf(trace, 1, null)
  for (const direction of [1, -1]) {
    const visited = []
    const next = (at) => nextOccurrence(trace, occurrences, at, direction)
    for (let box = next({box: null, time: direction > 0 ? -1 : 1000}); box >= 0; box = next({box, time: 0})) visited.push(box)
    assert.equal(visited.length, 9)
    assert.deepEqual([...visited].sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8])
  }
})

test("every layer has a colour, and text on it has a contrast of at least 4.5", () => {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
  const light = (color) => [1, 3, 5].map((at) => channel(parseInt(color.slice(at, at + 2), 16) / 255))
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0)
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x)
    return (high + 0.05) / (low + 0.05)
  }
  for (const is_dark of [false, true]) {
    const palette = makePalette(is_dark, [...LAYERS, "range", "sync"])
    palette.layer.forEach((color, index) => {
      assert.match(color, /^#[0-9A-F]{6}$/i)
      assert.equal(palette.text_on_layer[index], textOn(color))
      assert.ok(contrast(color, palette.text_on_layer[index]) >= 4.5, `${color} ${palette.text_on_layer[index]}`)
    })
    const {surface} = palette
    assert.ok(contrast(surface.unselected, surface.unselected_text) >= 4.5)
  }
})
