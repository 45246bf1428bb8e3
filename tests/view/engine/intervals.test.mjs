import assert from "node:assert/strict"
import {test} from "node:test"
import {coveredBetween, intersect, makeCover, unionOfSorted, unite, uniteAll} from "../../../gpuviz/view/engine/intervals.mjs"
import {makeRandom} from "./payloads.mjs"

const SPAN = 120

function randomSet(random) {
  const marks = new Uint8Array(SPAN)
  const intervals = []
  for (let i = 0; i < random(12); i++) {
    const start = random(SPAN)
    const end = Math.min(SPAN, start + random(20))
    intervals.push([start, end])
    marks.fill(1, start, end)
  }
  intervals.sort((a, b) => a[0] - b[0])
  return {marks, edges: unionOfSorted((add) => intervals.forEach(([start, end]) => add(start, end)))}
}

function marksOf(edges) {
  const marks = new Uint8Array(SPAN)
  for (let i = 0; i < edges.length; i += 2) marks.fill(1, edges[i], edges[i + 1])
  return marks
}

test("unions, intersections and windows agree with counting every nanosecond", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = makeRandom(seed)
    const sets = [randomSet(random), randomSet(random), randomSet(random)]
    const [a, b] = sets
    assert.deepEqual(marksOf(a.edges), a.marks)
    assert.deepEqual(marksOf(unite(a.edges, b.edges)), a.marks.map((mark, i) => mark | b.marks[i]))
    assert.deepEqual(marksOf(intersect(a.edges, b.edges)), a.marks.map((mark, i) => mark & b.marks[i]))
    const all = uniteAll(sets.map((set) => set.edges))
    assert.deepEqual(marksOf(all), a.marks.map((mark, i) => mark | b.marks[i] | sets[2].marks[i]))
    for (let i = 2; i < all.length; i += 2) assert.ok(all[i] > all[i - 1], "disjoint and sorted")
    const [from, to] = [random(SPAN), random(SPAN)]
    const expected = to > from ? a.marks.slice(from, to).reduce((sum, mark) => sum + mark, 0) : 0
    assert.equal(coveredBetween(makeCover(a.edges), from, to), expected)
    assert.equal(coveredBetween(makeCover(a.edges), -Infinity, Infinity), a.marks.reduce((sum, mark) => sum + mark, 0))
  }
})
