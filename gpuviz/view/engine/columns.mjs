// Reads the payload: base64 text → gzip → header (JSON) and byte-split columns. The writer is gpuviz/view/payload.py.

export async function decodePayload(base64) {
  return parsePayload(await gunzip(bytesOfBase64(base64)))
}

function bytesOfBase64(base64) {
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}

async function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

/** Splits uncompressed bytes into {header, columns: {name: typed array}}. */
export function parsePayload(bytes) {
  const header_length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + header_length)))
  if (header.version !== 1) {
    throw new Error(`this page's data has version ${header.version}; this engine reads version 1`)
  }
  const body = bytes.subarray(Math.ceil((4 + header_length) / 8) * 8)
  const columns = {}
  for (const column of header.columns) columns[column.name] = decodeColumn(body, column)
  return {header, columns}
}

function decodeColumn(body, {type, delta, count, offset}) {
  if (type === "u8") return undoDifferences(body.slice(offset, offset + count), delta)
  if (type === "i32") return undoDifferences(joinBytes32(body, offset, count), delta)
  if (type === "i64") return joinBytes64(body, offset, count, delta)
  throw new Error(`a column has the type ${type}, which this engine does not know`)
}

function joinBytes32(body, offset, count) {
  const values = new Int32Array(count)
  for (let byte = 0; byte < 4; byte++) {
    const plane = offset + byte * count
    const shift = 8 * byte
    for (let i = 0; i < count; i++) values[i] |= body[plane + i] << shift
  }
  return values
}

// 64-bit values become doubles. Differences are summed as two 32-bit halves: their wrapping sum can leave the range
// that a double holds exactly on the way, although every value itself stays below 2^53.
function joinBytes64(body, offset, count, delta) {
  const low = joinBytes32(body, offset, count)
  const high = joinBytes32(body, offset + 4 * count, count)
  const values = new Float64Array(count)
  let low_sum = 0
  let high_sum = 0
  for (let i = 0; i < count; i++) {
    if (delta) {
      const sum = low_sum + (low[i] >>> 0)
      low_sum = sum >>> 0
      high_sum = (high_sum + high[i] + (sum > 0xffffffff ? 1 : 0)) | 0
    } else {
      low_sum = low[i] >>> 0
      high_sum = high[i]
    }
    values[i] = high_sum * 4294967296 + low_sum
  }
  return values
}

// Typed arrays wrap around on overflow, as the writer's differences do.
function undoDifferences(values, delta) {
  if (delta) for (let i = 1; i < values.length; i++) values[i] += values[i - 1]
  return values
}
