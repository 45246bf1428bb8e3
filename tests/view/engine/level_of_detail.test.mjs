import assert from "node:assert/strict"
import {test} from "node:test"
import {boxAt, fillColumns, leastDrawn, longBoxes, makeColumns} from "../../../gpuviz/view/engine/level_of_detail.mjs"
import {makeRandom, makeTrace, randomTrace} from "./payloads.mjs"

function clippedSum(trace, row, [from, to]) {
  let busy = 0
  let starts = 0
  for (let box = trace.row_offset[row]; box < trace.row_offset[row + 1]; box++) {
    const [start, end] = [trace.box_start[box], trace.box_start[box] + trace.box_duration[box]]
    busy += Math.max(0, Math.min(end, to) - Math.max(start, from))
    if ((end > from || start >= from) && start < to) starts++
  }
  return {busy, starts}
}

test("boxes and columns together hold all busy time and every box of the view", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const trace = randomTrace(seed, {activities: 80})
    const random = makeRandom(seed)
    const from = random(trace.end_ns)
    const view = [from, from + 20 + random(trace.end_ns)]
    for (const width of [10, 37, 400]) {
      const least = leastDrawn(trace, view, width, 15)
      const boxes = longBoxes(trace, view, least)
      assert.ok(boxes.length <= 15)
      const columns = makeColumns(trace, width)
      for (let row = 0; row < trace.row_count; row++) {
        fillColumns(trace, row, view, least, () => true, columns)
        const drawn = boxes.filter((box) => trace.box_row[box] === row)
        const of_boxes = drawn.reduce((sum, box) => sum
          + Math.min(trace.box_start[box] + trace.box_duration[box], view[1]) - Math.max(trace.box_start[box], view[0]), 0)
        const in_columns = columns.busy.reduce((sum, busy) => sum + busy, 0)
        const expected = clippedSum(trace, row, view)
        assert.ok(Math.abs(of_boxes + in_columns - expected.busy) < 1e-6, `seed ${seed} width ${width}`)
        assert.equal(drawn.length + columns.boxes.reduce((sum, count) => sum + count, 0), expected.starts)
        assert.equal(columns.filled, expected.starts - drawn.length)
        for (const busy of columns.busy) assert.ok(busy <= (view[1] - view[0]) / width + 1e-6, "no column is more than full")
      }
    }
  }
})

test("a column takes the layer with most time, and knows how much of it is lit", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "kernel", name: "k"}, {parent: 0, layer: "memcpy", name: "c"}],
    lanes: [{kind: "stream", device: 0, rows: [[
      {start: 0, duration: 10, node: 1}, {start: 10, duration: 30, node: 2}, {start: 40, duration: 25, node: 1}, {start: 150, duration: 0, node: 2},
    ]]}],
  })
  const columns = fillColumns(trace, 0, [0, 200], 1000, (box) => trace.box_node[box] === 2, makeColumns(trace, 2))
  assert.deepEqual([...columns.busy], [65, 0])
  assert.deepEqual([...columns.lit], [30, 0])
  assert.equal(trace.layers[columns.layer[0]], "kernel")
  assert.equal(trace.layers[columns.layer[1]], "memcpy", "a box without length still shows")
  assert.deepEqual([...columns.boxes], [3, 1])
})

test("equal durations beyond the budget all become columns", () => {
  const boxes = Array.from({length: 100}, (_, i) => ({start: i * 10, duration: 9, node: 1}))
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "kernel", name: "k"}],
    lanes: [{kind: "stream", device: 0, rows: [boxes]}],
  })
  assert.equal(longBoxes(trace, [0, 1000], leastDrawn(trace, [0, 1000], 1000, 100)).length, 100)
  assert.equal(longBoxes(trace, [0, 1000], leastDrawn(trace, [0, 1000], 1000, 99)).length, 0)
})

test("an open box is in every view after its start", () => {
  const later = Array.from({length: 20}, (_, i) => ({start: 100 + i * 10, duration: 5, node: 1}))
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "op", name: "f"}],
    lanes: [{kind: "thread", rows: [[{start: 10, duration: 0, node: 1, open: true}, ...later]]}],
  })
  assert.ok(longBoxes(trace, [250, 290], 1).includes(0))
  assert.ok(!longBoxes(trace, [0, 9], 1).includes(0))
})

test("the box at a time, or the nearest within reach", () => {
  const trace = makeTrace({
    nodes: [{parent: -1, layer: "root", name: "r"}, {parent: 0, layer: "op", name: "f"}],
    lanes: [{kind: "thread", rows: [[{start: 10, duration: 10, node: 1}, {start: 30, duration: 1, node: 1}, {start: 50, duration: 50, node: 1}]]}],
  })
  assert.equal(boxAt(trace, 0, 15, 0), 0)
  assert.equal(boxAt(trace, 0, 28, 5), 1)
  assert.equal(boxAt(trace, 0, 22, 5), 0)
  assert.equal(boxAt(trace, 0, 99, 0), 2)
  assert.equal(boxAt(trace, 0, 40, 3), -1)
})
