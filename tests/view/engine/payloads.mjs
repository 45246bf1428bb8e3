// Small traces for the tests: an encoder that writes what gpuviz/view/payload.py writes, and random data.

import {gzipSync} from "node:zlib"
import {parsePayload} from "../../../gpuviz/view/engine/columns.mjs"
import {createTrace} from "../../../gpuviz/view/engine/trace.mjs"

export const LAYERS = [
  "root", "group", "cell", "line", "python", "module", "op", "other", "api", "kernel", "memcpy", "memset", "graph_run",
]

const WIDTHS = {i32: 4, i64: 8, u8: 1}

/** Header without `columns`, and columns as {name: [type, delta, values]} → uncompressed bytes. */
export function encode(header, columns) {
  const described = []
  const parts = []
  let offset = 0
  for (const [name, [type, delta, values]] of Object.entries(columns)) {
    const data = splitBytes(delta ? differences(values) : values, WIDTHS[type])
    described.push({name, type, delta, count: values.length, offset})
    parts.push(data)
    offset += data.length
  }
  const text = Buffer.from(JSON.stringify({version: 1, ...header, columns: described}))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  const padding = Buffer.alloc((8 - ((4 + text.length) % 8)) % 8)
  return new Uint8Array(Buffer.concat([length, text, padding, ...parts]))
}

export function base64Of(bytes) {
  return gzipSync(bytes).toString("base64")
}

function differences(values) {
  return Array.from(values, (value, index) => BigInt(value) - (index ? BigInt(values[index - 1]) : 0n))
}

function splitBytes(values, width) {
  const data = Buffer.alloc(values.length * width)
  Array.from(values).forEach((value, index) => {
    const bits = BigInt.asUintN(8 * width, BigInt(value))
    for (let byte = 0; byte < width; byte++) data[byte * values.length + index] = Number((bits >> BigInt(8 * byte)) & 255n)
  })
  return data
}

/**
 * A trace from a description:
 * nodes [{parent, layer, name, file?, line?, cell?}] in preorder (the root first), lanes [{kind, label, device, rows:
 * [[{start, duration, node?, name?, launch?, open?, copy?: {direction, bytes}}]]}].
 */
export function makeTrace({nodes, lanes, devices = [{label: "GPU 0", ordinal: 0}], directions = [], sources = [], meta = {}}) {
  const {header, columns} = describe({nodes, lanes, devices, directions, sources, meta})
  return createTrace(parsePayload(encode(header, columns)))
}

export function describe({nodes, lanes, devices, directions, sources, meta}) {
  const names = []
  const nameIndex = (text) => {
    if (text === undefined || text === null) return -1
    if (!names.includes(text)) names.push(text)
    return names.indexOf(text)
  }
  const frames = {
    layer: nodes.map((node) => LAYERS.indexOf(node.layer)), name: nodes.map((node) => nameIndex(node.name)),
    file: nodes.map((node) => nameIndex(node.file)), line: nodes.map((node) => node.line ?? -1),
    cell: nodes.map((node) => node.cell ?? -1),
  }
  const last = nodes.map((_, index) => index)
  for (let node = nodes.length - 1; node > 0; node--) last[nodes[node].parent] = Math.max(last[nodes[node].parent], last[node])
  const boxes = []
  const row_offset = [0]
  const lane_list = []
  for (const {kind, label = kind, device = -1, rows} of lanes) {
    lane_list.push({kind, label, device, first_row: row_offset.length - 1, row_count: rows.length})
    for (const row of rows) {
      boxes.push(...row)
      row_offset.push(boxes.length)
    }
  }
  const copies = boxes.map((box, index) => ({...box, index})).filter((box) => box.copy).sort((a, b) => a.start - b.start)
  const end_ns = Math.max(1, ...boxes.map((box) => box.start + box.duration))
  return {
    header: {
      meta: {title: "test", subtitle: "", modelled: false, end_ns, left_out: null, facts: [], notes: [], ...meta},
      layers: LAYERS, names, frames, lanes: lane_list, devices, directions, sources,
    },
    columns: {
      node_parent: ["i32", false, nodes.map((node) => node.parent)],
      node_last: ["i32", false, last],
      node_frame: ["i32", false, nodes.map((_, index) => index)],
      row_offset: ["i32", true, row_offset],
      box_start: ["i64", true, boxes.map((box) => box.start)],
      box_duration: ["i64", false, boxes.map((box) => box.duration)],
      box_node: ["i32", false, boxes.map((box) => box.node ?? -1)],
      box_name: ["i32", false, boxes.map((box) => nameIndex(box.name))],
      box_launch: ["i32", false, boxes.map((box) => box.launch ?? -1)],
      open_box: ["i32", true, boxes.flatMap((box, index) => (box.open ? [index] : []))],
      copy_box: ["i32", false, copies.map((box) => box.index)],
      copy_direction: ["i32", false, copies.map((box) => box.copy.direction)],
      copy_bytes: ["i64", false, copies.map((box) => box.copy.bytes)],
    },
  }
}

/** A generator of the same numbers for the same seed: integers in [0, below). */
export function makeRandom(seed) {
  let state = seed >>> 0 || 1
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    const mixed = Math.imul(state ^ (state >>> 13), 0x297a2d39) >>> 0
    return ((mixed ^ (mixed >>> 16)) >>> 0) % below
  }
}

/** Python → op → API → kernel or copy, on one thread and three streams of two devices, all at random. */
export function randomTrace(seed, {activities = 40} = {}) {
  const random = makeRandom(seed)
  const nodes = [{parent: -1, layer: "root", name: "root"}]
  const leaves = []
  const calls = []
  let time = 0
  // Nodes are added depth first, so that they are in preorder.
  for (let python = 0; python < 3; python++) {
    const python_node = nodes.push({parent: 0, layer: "python", name: `step${python % 2}`, file: "train.py", line: 10 + (python % 2)}) - 1
    for (let op = 0; op < 1 + random(3); op++) {
      const op_node = nodes.push({parent: python_node, layer: "op", name: `aten::op${op}`}) - 1
      const api_node = nodes.push({parent: op_node, layer: "api", name: "cudaLaunchKernel"}) - 1
      for (const layer of ["kernel", "memcpy", "memset", "graph_run"].slice(0, 1 + random(4))) {
        leaves.push({node: nodes.push({parent: api_node, layer, name: `${layer}_${random(3)}`}) - 1, layer})
      }
      for (let call = 0; call < 1 + random(4); call++) {
        const start = time + random(20)
        const inner = 3 + random(30)
        calls.push({python_node, op_node, api_node, start, inner})
        time = start + inner + 12
      }
    }
  }
  const streams = [{device: 0, rows: [[]]}, {device: 0, rows: [[]]}, {device: 1, rows: [[]]}]
  const free = [0, 0, 0]
  const directions = [{device: 0, kind: "HtoD", label: "GPU 0 · HtoD"}, {device: 1, kind: "DtoH", label: "GPU 1 · DtoH"}]
  for (let activity = 0; activity < activities; activity++) {
    const {node, layer} = leaves[random(leaves.length)]
    const stream = random(3)
    const start = free[stream] + random(15)
    const duration = random(8) === 0 ? 0 : 1 + random(40)
    free[stream] = start + duration
    const copy = layer === "memcpy" ? {direction: streams[stream].device, bytes: random(10) === 0 ? -1 : random(1000)} : undefined
    streams[stream].rows[0].push({start, duration, node, copy})
  }
  const row = (of) => calls.map(of)
  return makeTrace({
    nodes, directions,
    devices: [{label: "GPU 0", ordinal: 0}, {label: "GPU 1", ordinal: 1}],
    lanes: [
      ...streams.map(({device, rows}, index) => ({kind: "stream", label: `stream ${index}`, device, rows})),
      {kind: "thread", label: "main", rows: [
        row((call) => ({start: call.start, duration: call.inner + 10, node: call.python_node})),
        row((call) => ({start: call.start + 2, duration: call.inner + 5, node: call.op_node})),
        row((call) => ({start: call.start + 3, duration: call.inner, node: call.api_node})),
      ]},
      {kind: "range", label: "ranges", rows: [[{start: 1, duration: 50, name: "step 1"}]]},
    ],
  })
}
