import assert from "node:assert/strict"
import {test} from "node:test"
import {decodePayload, parsePayload} from "../../../gpuviz/view/engine/columns.mjs"
import {base64Of, encode} from "./payloads.mjs"

const LARGE = 2 ** 53 - 1

test("columns of every type survive, with and without differences", () => {
  const wide = [0, 1, 255, 256, 65536, 2 ** 32 - 1, 2 ** 32, 2 ** 40 + 7, LARGE]
  const {columns} = parsePayload(encode({}, {
    plain: ["i32", false, [0, -1, 2147483647, -2147483648, 77]],
    rising: ["i32", true, [5, 6, 1000000, 2000000000]],
    wrapping: ["i32", true, [-2147483648, 2147483647, -5]],
    wide: ["i64", false, [-1, ...wide]],
    wide_rising: ["i64", true, wide],
    wide_falling: ["i64", true, [LARGE, 0, -LARGE, 12, LARGE]],
    bytes: ["u8", false, [0, 7, 255]],
    empty: ["i64", true, []],
  }))
  assert.deepEqual([...columns.plain], [0, -1, 2147483647, -2147483648, 77])
  assert.deepEqual([...columns.rising], [5, 6, 1000000, 2000000000])
  assert.deepEqual([...columns.wrapping], [-2147483648, 2147483647, -5])
  assert.deepEqual([...columns.wide], [-1, ...wide])
  assert.deepEqual([...columns.wide_rising], wide)
  assert.deepEqual([...columns.wide_falling], [LARGE, 0, -LARGE, 12, LARGE])
  assert.deepEqual([...columns.bytes], [0, 7, 255])
  assert.equal(columns.empty.length, 0)
  assert.ok(columns.plain instanceof Int32Array)
  assert.ok(columns.wide instanceof Float64Array)
  assert.ok(columns.bytes instanceof Uint8Array)
})

test("base64 and gzip are undone, text of any language is kept", async () => {
  const bytes = encode({names: ["größe 測定 🙂 <img src=x onerror=alert(1)>"]}, {a: ["i32", false, [1, 2, 3]]})
  const {header, columns} = await decodePayload(base64Of(bytes))
  assert.equal(header.names[0], "größe 測定 🙂 <img src=x onerror=alert(1)>")
  assert.deepEqual([...columns.a], [1, 2, 3])
})

test("a payload of another version is refused in words", () => {
  assert.throws(() => parsePayload(encode({version: 2}, {})), /version 2.*version 1/)
})

test("a column of an unknown type is refused", () => {
  const bytes = encode({}, {a: ["i32", false, [1]]})
  const text = new TextDecoder().decode(bytes).replace('"i32"', '"f99"')
  assert.throws(() => parsePayload(new TextEncoder().encode(text)), /f99/)
})
