import assert from "node:assert/strict"
import {test} from "node:test"
import {
  METRICS, aggregate, layoutTree, matchedTotal, statisticsOfNode,
} from "../../../gpuviz/view/engine/tree.mjs"
import {TOO_SLOW, compileQuery, matchNodes} from "../../../gpuviz/view/engine/search.mjs"
import {createStore} from "../../../gpuviz/view/engine/store.mjs"
import {boxName, frameLabel} from "../../../gpuviz/view/engine/trace.mjs"
import {indexLines, joinCallers, rankLines, sumLines} from "../../../gpuviz/view/engine/lines.mjs"
import {workBelow} from "../../../gpuviz/view/engine/work.mjs"
import {makeRandom, makeTrace, randomTrace} from "./payloads.mjs"

function isAtOrBelow(trace, node, ancestor) {
  for (let at = node; at >= 0; at = trace.node_parent[at]) if (at === ancestor) return true
  return false
}

function closedBoxes(trace, kind) {
  const boxes = []
  for (const lane of trace.lanes) {
    if (lane.kind !== kind) continue
    for (let box = trace.row_offset[lane.first_row]; box < trace.row_offset[lane.first_row + lane.row_count]; box++) {
      if (!trace.is_open[box]) boxes.push({
        node: trace.box_node[box], start: trace.box_start[box], duration: trace.box_duration[box],
      })
    }
  }
  return boxes
}

const clipped = ({start, duration}, [from, to]) => Math.max(0, Math.min(start + duration, to) - Math.max(start, from))
const isIn = ({start}, [from, to]) => start >= from && start < to

function windowsOf(trace, seed) {
  const random = makeRandom(seed)
  const start = random(trace.end_ns)
  return [null, [start, start + 1 + random(trace.end_ns)]]
}

test("GPU time and launches: every node holds what lies at or below it", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const trace = randomTrace(seed)
    const activities = closedBoxes(trace, "stream")
    for (const window of windowsOf(trace, seed)) {
      const range = window ?? [-Infinity, Infinity]
      const gpu = aggregate(trace, "gpu", window)
      const launches = aggregate(trace, "launches", window)
      for (let node = 0; node < trace.node_count; node++) {
        const below = activities.filter((box) => isAtOrBelow(trace, box.node, node))
        assert.equal(gpu.inclusive[node], below.reduce((sum, box) => sum + clipped(box, range), 0))
        assert.equal(launches.inclusive[node], below.filter((box) => isIn(box, range)).length)
      }
      assert.equal(gpu.total, activities.reduce((sum, box) => sum + clipped(box, range), 0))
    }
  }
})

test("CPU time: a call holds its callees, a node without calls the sum of its children", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const trace = randomTrace(seed)
    const calls = closedBoxes(trace, "thread")
    for (const window of windowsOf(trace, seed)) {
      const range = window ?? [-Infinity, Infinity]
      const cpu = aggregate(trace, "cpu", window)
      for (let node = trace.node_count - 1; node >= 0; node--) {
        const own = calls.filter((box) => box.node === node)
        const children = [...trace.node_parent.keys()].filter((child) => trace.node_parent[child] === node)
        const sum_of_children = children.reduce((sum, child) => sum + cpu.inclusive[child], 0)
        const touches = ({start, duration}) => start < range[1] && (start + duration > range[0] || start >= range[0])
        const expected = own.some(touches) ? own.reduce((sum, box) => sum + clipped(box, range), 0) : sum_of_children
        assert.equal(cpu.inclusive[node], expected)
        assert.equal(cpu.exclusive[node], Math.max(0, expected - sum_of_children))
      }
    }
  }
})

test("laws: inclusive = exclusive + children; windows side by side add up; the whole window is no window", () => {
  const trace = randomTrace(3)
  for (const metric of ["gpu", "launches"]) {
    const whole = aggregate(trace, metric, null)
    for (let node = 0; node < trace.node_count; node++) {
      let sum = whole.exclusive[node]
      for (let child = node + 1; child < trace.node_count; child++) if (trace.node_parent[child] === node) sum += whole.inclusive[child]
      assert.equal(sum, whole.inclusive[node])
    }
    assert.deepEqual(aggregate(trace, metric, [0, trace.end_ns + 1]).inclusive, whole.inclusive)
    const parts = [[0, 50], [50, 133], [133, trace.end_ns + 1]].map((window) => aggregate(trace, metric, window))
    whole.inclusive.forEach((value, node) => assert.equal(parts.reduce((sum, part) => sum + part.inclusive[node], 0), value))
  }
})

test("open boxes are in no sum", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "root"}, {parent: 0, layer: "python", name: "f"}, {parent: 1, layer: "kernel", name: "k"}],
    lanes: [
      {kind: "stream", device: 0, rows: [[{start: 0, duration: 5, node: 2}, {start: 10, duration: 90, node: 2, open: true}]]},
      {kind: "thread", rows: [[{start: 0, duration: 30, node: 1}, {start: 40, duration: 60, node: 1, open: true}]]},
    ],
  })
  assert.equal(aggregate(trace, "gpu", null).total, 5)
  assert.equal(aggregate(trace, "cpu", null).total, 30)
  assert.equal(aggregate(trace, "launches", null).total, 1)
  assert.equal(statisticsOfNode(trace, aggregate(trace, "gpu", null), 1).calls, 1)
})

test("layout: children lie side by side within their parent", () => {
  for (const metric of METRICS) {
    const trace = randomTrace(5)
    const {inclusive} = aggregate(trace, metric, null)
    const left = layoutTree(trace, inclusive)
    for (let node = 1; node < trace.node_count; node++) {
      const parent = trace.node_parent[node]
      assert.ok(left[node] >= left[parent])
      assert.ok(left[node] + inclusive[node] <= left[parent] + inclusive[parent])
      for (let other = node + 1; other < trace.node_count; other++) {
        if (trace.node_parent[other] === parent) assert.ok(left[other] >= left[node] + inclusive[node])
      }
    }
  }
})

// root → a → b → a → kernel, and root → c → kernel
const recursive_trace = () => makeTrace({
  nodes: [
    {parent: -1, layer: "root", name: "root"},
    {parent: 0, layer: "python", name: "alpha", file: "x.py", line: 1},
    {parent: 1, layer: "python", name: "beta", file: "x.py", line: 2},
    {parent: 2, layer: "python", name: "alpha", file: "x.py", line: 1},
    {parent: 3, layer: "kernel", name: "gemm"},
    {parent: 1, layer: "kernel", name: "gemm"},
    {parent: 0, layer: "python", name: "gamma", file: "y.py", line: 9},
    {parent: 6, layer: "kernel", name: "copyish"},
  ],
  lanes: [{kind: "stream", device: 0, rows: [[
    {start: 0, duration: 10, node: 4}, {start: 20, duration: 5, node: 5}, {start: 30, duration: 85, node: 7},
  ]]}],
})

test("search: a match below a match is counted once; case does not matter; a broken pattern matches nothing", () => {
  const trace = recursive_trace()
  const {inclusive, total} = aggregate(trace, "gpu", null)
  const matched = (query) => matchedTotal(trace, inclusive, matchNodes(trace, compileQuery(query).pattern))
  assert.equal(total, 100)
  assert.equal(matched("alpha"), 15)
  assert.equal(matched("ALPHA|gemm"), 15)
  assert.equal(matched("beta|gamma"), 95)
  assert.equal(matched("root"), 100)
  assert.equal(matched("nothing"), 0)
  const broken = compileQuery("a(")
  assert.ok(broken.error)
  assert.equal(matchedTotal(trace, inclusive, matchNodes(trace, broken.pattern)), 0)
  assert.deepEqual(compileQuery(""), {pattern: null, error: null})
})

test("time per line: recursion is counted once", () => {
  const trace = recursive_trace()
  const index = indexLines(trace)
  const {inclusive} = aggregate(trace, "gpu", null)
  const ranked = rankLines(index, sumLines(trace, index, inclusive))
  assert.deepEqual(ranked.map(({place, value, node}) => [place, value, node]), [["y.py:9", 85, 6], ["x.py:1", 15, 1], ["x.py:2", 10, 2]])
  const below = rankLines(index, sumLines(trace, index, inclusive, 2))
  assert.deepEqual(below.map(({place, value}) => [place, value]), [["x.py:1", 10], ["x.py:2", 10]])
})

test("lines that only lead to one another are joined under the innermost", () => {
  const trace = makeTrace({
    nodes: [
      {parent: -1, layer: "root", name: "root"},
      {parent: 0, layer: "python", name: "main", file: "m.py", line: 1},
      {parent: 1, layer: "python", name: "run", file: "m.py", line: 5},
      {parent: 2, layer: "kernel", name: "k"},
      {parent: 0, layer: "python", name: "else", file: "m.py", line: 9},
      {parent: 4, layer: "kernel", name: "k"},
    ],
    lanes: [{kind: "stream", device: 0, rows: [[{start: 0, duration: 10, node: 3}, {start: 20, duration: 10, node: 5}]]}],
  })
  const index = indexLines(trace)
  const ranked = rankLines(index, sumLines(trace, index, aggregate(trace, "gpu", null).inclusive))
  const joined = joinCallers(trace, ranked)
  assert.deepEqual(joined.map(({place, callers}) => [place, callers.map((caller) => caller.place)]), [["m.py:9", []], ["m.py:5", ["m.py:1"]]])
})

test("work below a frame: names add up to the frame, counts are by start", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const trace = randomTrace(seed)
    for (const window of windowsOf(trace, seed)) {
      for (const metric of ["gpu", "cpu"]) {
        const tree = aggregate(trace, metric, window)
        const launches = aggregate(trace, "launches", window)
        for (let node = 0; node < trace.node_count; node++) {
          const rows = workBelow(trace, tree, node)
          const sum = rows.reduce((total, row) => total + row.time_ns, 0)
          if (metric === "gpu") {
            assert.equal(sum, tree.inclusive[node])
            assert.equal(rows.reduce((total, row) => total + row.count, 0), launches.inclusive[node])
          }
          for (let i = 1; i < rows.length; i++) assert.ok(rows[i].time_ns <= rows[i - 1].time_ns)
        }
      }
    }
  }
})

test("statistics of a node: calls, activities, durations of what starts in the window", () => {
  const trace = recursive_trace()
  const whole = statisticsOfNode(trace, aggregate(trace, "gpu", null), 1)
  assert.deepEqual([whole.inclusive, whole.exclusive, whole.activities, whole.calls], [15, 0, 2, null])
  assert.deepEqual([whole.min, whole.p50, whole.p99, whole.max, whole.mean, whole.sum], [5, 5, 10, 10, 7.5, 15])
  assert.equal(statisticsOfNode(trace, aggregate(trace, "gpu", null), 0).calls, null, "the root is not a call")
  const windowed = statisticsOfNode(trace, aggregate(trace, "gpu", [5, 60]), 0)
  // 5 of the first, all of the second, 30 of the third; two start in the window, with their whole durations.
  assert.deepEqual([windowed.inclusive, windowed.activities, windowed.sum, windowed.max], [40, 2, 90, 85])
})

test("patterns that could freeze the page are refused, others run", () => {
  for (const query of ["(.*)*x", "(a+)+$", "(a|aa)*b", "((ab?)c)+x", "(a{2,})*", "(?:x*y){3,}", "a*b*c*d*e*f*g*h", "(a|b){2,}"]) {
    const {pattern, error} = compileQuery(query)
    assert.equal(pattern, null, query)
    assert.match(error, /^too slow a regular expression/, query)
  }
  for (const query of ["gelu|gemm", "aten::(mm|addmm)", "(ab)+", "\\(a+\\)+", "[(a+)]+", "a.*b.*c", "(gemm|gelu)?_kernel", "f(?=x+)", "{", "a{2}b+"]) {
    assert.equal(compileQuery(query).error, null, query)
    assert.ok(compileQuery(query).pattern.test !== undefined)
  }
  const begin = performance.now()
  assert.ok(!compileQuery(".*.*.*.*.*.*.*.*z").pattern.test("a".repeat(1000)))
  assert.ok(performance.now() - begin < 1000)
})

test("a search that runs out of time finds nothing and says so", () => {
  const trace = recursive_trace()
  let time = 0
  assert.equal(matchNodes(trace, /x/, () => (time += 300)), null)
  const {actions, derived} = createStore(trace)
  actions.set_query("(.*)*x")
  assert.match(derived.query_error, /a repeat within a repeat/)
  assert.equal(derived.matched, 0)
  assert.match(TOO_SLOW, /regular expression/)
})

test("calls of Python functions and modules are unknown where none was recorded", () => {
  const nodes = [
    {parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "python", name: "f"}, {parent: 1, layer: "module", name: "Linear"},
    {parent: 2, layer: "op", name: "mm"}, {parent: 0, layer: "python", name: "g"}, {parent: 0, layer: "op", name: "never"},
  ]
  const callsOf = (rows) => {
    const trace = makeTrace({nodes, lanes: [{kind: "thread", rows}]})
    const tree = aggregate(trace, "cpu", null)
    return nodes.map((_, node) => statisticsOfNode(trace, tree, node).calls)
  }
  assert.deepEqual(callsOf([[{start: 2, duration: 5, node: 3}]]), [null, null, null, 1, null, 0])
  assert.deepEqual(callsOf([[{start: 0, duration: 9, node: 1}], [{start: 2, duration: 5, node: 3}]]), [null, 1, null, 1, 0, 0])
})

test("a frame or interval without a name is called that", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "op", name: ""}, {parent: 0, layer: "op", name: " "}],
    lanes: [{kind: "thread", rows: [[{start: 0, duration: 9, node: 1}]]}, {kind: "range", rows: [[{start: 0, duration: 9, name: ""}]]}],
  })
  assert.deepEqual([1, 2].map((node) => frameLabel(trace, node)), ["(no name)", "(no name)"])
  assert.deepEqual([0, 1].map((box) => boxName(trace, box)), ["(no name)", "(no name)"])
})
