import assert from "node:assert/strict"
import {test} from "node:test"
import {HISTOGRAM_BINS, histogramEdges, histogramOf, nearestRank, summarize} from "../../../gpuviz/view/engine/statistics.mjs"
import {makeRandom} from "./payloads.mjs"

test("percentiles are nearest rank", () => {
  const values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  assert.equal(nearestRank(values, 0.5), 5)
  assert.equal(nearestRank(values, 0.51), 6)
  assert.equal(nearestRank(values, 0.99), 10)
  assert.equal(nearestRank(values, 0), 1)
  assert.equal(nearestRank([42], 0.99), 42)
  assert.equal(nearestRank([], 0.5), null)
})

test("a summary of nothing has no numbers, only a count of 0", () => {
  const {count, sum, mean, min, p50, p99, max, histogram} = summarize(new Float64Array(0))
  assert.deepEqual([count, sum, mean, min, p50, p99, max], [0, 0, null, null, null, null, null])
  assert.deepEqual(histogram, new Array(HISTOGRAM_BINS).fill(0))
})

test("summaries sort numbers as numbers", () => {
  const {min, p50, max, mean} = summarize(Float64Array.from([100, 9, 20, 1]))
  assert.deepEqual([min, p50, max, mean], [1, 9, 100, 32.5])
})

test("the histogram counts everything, by the stated formula", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const random = makeRandom(seed)
    const values = Float64Array.from({length: 1 + random(300)}, () => random(1 + random(100000))).sort()
    const bins = histogramOf(values)
    const [min, max] = [Math.max(1, values[0]), Math.max(1, values[values.length - 1])]
    const expected = new Array(24).fill(0)
    for (const value of values) {
      expected[Math.min(23, Math.floor((24 * Math.log(Math.max(1, value) / min)) / Math.log((max * 1.0001) / min)))]++
    }
    assert.deepEqual(bins, expected)
    assert.equal(bins.reduce((sum, count) => sum + count, 0), values.length)
    assert.ok(bins[0] > 0, "the shortest is in the first bin")
    assert.ok(bins[23] > 0 || min === max, "the longest is in the last bin")
  }
})

test("the bins' edges join up from the shortest to just above the longest", () => {
  for (let bin = 0; bin < HISTOGRAM_BINS - 1; bin++) {
    assert.ok(Math.abs(histogramEdges(10, 5000, bin)[1] - histogramEdges(10, 5000, bin + 1)[0]) < 1e-6)
  }
  assert.equal(histogramEdges(10, 5000, 0)[0], 10)
  assert.ok(Math.abs(histogramEdges(10, 5000, 23)[1] - 5000.5) < 1e-6)
})
