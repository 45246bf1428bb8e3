import assert from "node:assert/strict"
import {test} from "node:test"
import {buildCovers, copyAt, copyShares, copyTime, deviceTime, exposureOfCopy} from "../../../gpuviz/view/engine/sums.mjs"
import {makeTrace, makeRandom, randomTrace} from "./payloads.mjs"

// Every nanosecond of every device, one by one.
function bruteForce(trace, device, [from, to]) {
  const at = {kernel: new Set(), copy: new Set(), memset: new Set()}
  const set_of = {kernel: "kernel", graph_run: "kernel", memcpy: "copy", memset: "memset"}
  trace.lanes.forEach((lane) => {
    if (lane.kind !== "stream" || lane.device !== device) return
    for (let box = trace.row_offset[lane.first_row]; box < trace.row_offset[lane.first_row + lane.row_count]; box++) {
      if (trace.is_open[box]) continue
      const set = at[set_of[trace.layers[trace.box_layer[box]]]]
      for (let ns = trace.box_start[box]; ns < trace.box_start[box] + trace.box_duration[box]; ns++) {
        if (ns >= from && ns < to) set.add(ns)
      }
    }
  })
  const {kernel, copy, memset} = at
  const hidden = [...copy].filter((ns) => kernel.has(ns)).length
  const busy = new Set([...kernel, ...copy, ...memset]).size
  return {
    kernel_ns: kernel.size, copy_ns: copy.size, memset_ns: memset.size, hidden_copy_ns: hidden,
    exposed_copy_ns: copy.size - hidden,
    exposed_memset_ns: [...memset].filter((ns) => !kernel.has(ns) && !copy.has(ns)).length,
    busy_ns: busy, idle_ns: to - from - busy, span_ns: to - from,
  }
}

test("device time agrees with counting every nanosecond, with and without a window", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const trace = randomTrace(seed)
    const covers = buildCovers(trace)
    const random = makeRandom(seed + 1000)
    const start = random(trace.end_ns)
    for (const window of [null, [start, start + 1 + random(trace.end_ns)]]) {
      for (const row of deviceTime(trace, covers, window)) {
        const expected = bruteForce(trace, row.device, window ?? [covers.devices[row.device].first, covers.devices[row.device].last])
        for (const [name, value] of Object.entries(expected)) assert.equal(row[name], value, `seed ${seed} ${name}`)
        assert.equal(row.kernel_ns + row.exposed_copy_ns + row.exposed_memset_ns + row.idle_ns, row.span_ns)
        assert.equal(row.hidden_copy_ns + row.exposed_copy_ns, row.copy_ns)
      }
    }
  }
})

test("windows that lie side by side add up to the window that holds them", () => {
  const trace = randomTrace(7)
  const covers = buildCovers(trace)
  const whole = deviceTime(trace, covers, [0, 300])
  const parts = [[0, 77], [77, 150], [150, 300]].map((window) => deviceTime(trace, covers, window))
  for (const name of ["busy_ns", "kernel_ns", "copy_ns", "hidden_copy_ns", "exposed_copy_ns", "exposed_memset_ns", "idle_ns"]) {
    whole.forEach((row, device) => assert.equal(parts.reduce((sum, part) => sum + part[device][name], 0), row[name]))
  }
})

const copies_trace = () => makeTrace({
  nodes: [
    {parent: -1, layer: "root", name: "root"}, {parent: 0, layer: "kernel", name: "k"}, {parent: 0, layer: "memcpy", name: "Memcpy HtoD"},
  ],
  directions: [{device: 0, kind: "HtoD", label: "GPU 0 · HtoD"}],
  lanes: [
    {kind: "stream", device: 0, rows: [[{start: 100, duration: 100, node: 1}]]},
    {kind: "stream", device: 0, rows: [[
      {start: 0, duration: 40, node: 2, copy: {direction: 0, bytes: 4000}},
      {start: 150, duration: 100, node: 2, copy: {direction: 0, bytes: 1000}},
    ]]},
  ],
})

test("copy time: count and bytes by start, time by overlap", () => {
  const trace = copies_trace()
  const covers = buildCovers(trace)
  const [whole] = copyTime(trace, covers, null)
  assert.deepEqual([whole.count, whole.bytes, whole.union_ns, whole.hidden_ns, whole.exposed_ns], [2, 5000, 140, 50, 90])
  const [part] = copyTime(trace, covers, [20, 180])
  assert.deepEqual([part.count, part.bytes, part.union_ns, part.hidden_ns, part.exposed_ns], [1, 1000, 50, 30, 20])
  assert.deepEqual(exposureOfCopy(trace, covers, 1), {hidden_ns: 50, exposed_ns: 50})
})

test("a copy of unknown size makes the sum of bytes unknown, not smaller", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "root"}, {parent: 0, layer: "memcpy", name: "Memcpy DtoH"}],
    directions: [{device: 0, kind: "DtoH", label: "GPU 0 · DtoH"}],
    lanes: [{kind: "stream", device: 0, rows: [[
      {start: 0, duration: 10, node: 1, copy: {direction: 0, bytes: -1}}, {start: 20, duration: 10, node: 1, copy: {direction: 0, bytes: 8}},
    ]]}],
  })
  const covers = buildCovers(trace)
  assert.equal(copyTime(trace, covers, null)[0].bytes, null)
  assert.equal(copyTime(trace, covers, [15, 30])[0].bytes, 8)
})

test("of a device without any activity nothing is known, in no window", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "root"}], lanes: [{kind: "thread", rows: [[{start: 0, duration: 5, node: 0}]]}],
  })
  const covers = buildCovers(trace)
  assert.equal(deviceTime(trace, covers, null)[0].span_ns, null)
  assert.equal(deviceTime(trace, covers, [0, 5])[0].span_ns, null)
})

test("the shares of a view's columns hold exactly the time of the copies in it", () => {
  const trace = copies_trace()
  const covers = buildCovers(trace)
  for (const [view, count] of [[[0, 250], 10], [[13, 211], 7], [[0, 250], 1], [[30, 160], 64]]) {
    const {hidden, all} = copyShares(covers, 0, view, count)
    const column = (view[1] - view[0]) / count
    const [row] = copyTime(trace, covers, view)
    assert.ok(Math.abs(all.reduce((sum, share) => sum + share * column, 0) - row.union_ns) < 1e-6)
    assert.ok(Math.abs(hidden.reduce((sum, share) => sum + share * column, 0) - row.hidden_ns) < 1e-6)
    all.forEach((share, bin) => assert.ok(share <= 1 + 1e-9 && hidden[bin] <= share + 1e-9))
  }
})

test("the copy under the pointer, or the nearest within reach", () => {
  const trace = copies_trace()
  assert.equal(copyAt(trace, 0, 20, 0), 0)
  assert.equal(copyAt(trace, 0, 200, 0), 1)
  assert.equal(copyAt(trace, 0, 45, 10), 0)
  assert.equal(copyAt(trace, 0, 145, 10), 1)
  assert.equal(copyAt(trace, 0, 80, 10), -1)
})
