// Time per source line: the sum over the frames on that line, where a frame below another frame on the same line
// (recursion) is already counted in it. Pure.

/** Numbers every distinct (file or cell, line) of the trace. `of_frame`: -1 for frames without a known line. */
export function indexLines(trace) {
  const {frames, names, sources} = trace
  const of_frame = new Int32Array(frames.name.length).fill(-1)
  const lines = []
  const known = new Map()
  for (let frame = 0; frame < of_frame.length; frame++) {
    const line = frames.line[frame]
    const cell = frames.cell[frame] >= 0 && sources[frames.cell[frame]] ? frames.cell[frame] : -1
    const file = frames.file[frame]
    if (!(line > 0) || (cell < 0 && file < 0)) continue
    const key = `${cell}/${cell < 0 ? file : -1}/${line}`
    if (!known.has(key)) {
      known.set(key, lines.length)
      lines.push({cell, line, place: `${cell < 0 ? names[file] : sources[cell].label}:${line}`})
    }
    of_frame[frame] = known.get(key)
  }
  return {of_frame, lines}
}

/** Value per line at or below `top`, and for each line the node with the largest part of it. */
export function sumLines(trace, line_index, inclusive, top = 0) {
  const {of_frame, lines} = line_index
  const value = new Float64Array(lines.length)
  const busiest = new Int32Array(lines.length).fill(-1)
  const open = new Int32Array(lines.length)
  const path = []
  for (let node = top; node <= trace.node_last[top]; node++) {
    while (path.length && trace.node_last[path[path.length - 1]] < node) open[of_frame[trace.node_frame[path.pop()]]]--
    const line = of_frame[trace.node_frame[node]]
    if (line < 0) continue
    if (open[line] === 0) value[line] += inclusive[node]
    if (busiest[line] < 0 || inclusive[node] > inclusive[busiest[line]]) busiest[line] = node
    open[line]++
    path.push(node)
  }
  return {value, busiest}
}

/** Lines with a value: [{place, cell, line, value, node}], the largest first; of equal ones the innermost first. */
export function rankLines({lines}, {value, busiest}) {
  return lines
    .map((line, index) => ({...line, value: value[index], node: busiest[index]}))
    .filter((line) => line.value > 0)
    .sort((a, b) => b.value - a.value || b.node - a.node)
}

/**
 * Joins lines that only lead to one another: of callers with exactly the time of what they call, the innermost line
 * stays, with the others as its `callers`.
 */
export function joinCallers(trace, ranked) {
  const joined = []
  for (const line of ranked) {
    const last = joined[joined.length - 1]
    const leads_to_last = last && line.value === last.value && last.node <= trace.node_last[line.node] && last.node > line.node
    if (leads_to_last) last.callers.push(line)
    else joined.push({...line, callers: []})
  }
  return joined
}
