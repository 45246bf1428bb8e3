// How high the lanes of the timeline are, and where. Pure; all numbers are CSS pixels from the top.

export const FULL_ROW = 15
const TARGET_HEIGHT = 420
const LANE_GAP = 4
const HEADING = 20
const LABEL_STRIP = 14
/** Rows at least this high can carry text. */
export const LABELLED_ROW = 12

// From roomy to tight; the first that keeps the plot within TARGET_HEIGHT is taken. `single`: lanes of one row.
// `row`: a row of a lane with at most `deep` rows. `thin`: a row of a deeper lane that is not expanded.
const FITS = [
  {single: 18, row: FULL_ROW, deep: 8, thin: 5},
  {single: 18, row: FULL_ROW, deep: 8, thin: 4},
  {single: 16, row: 14, deep: 8, thin: 3},
  {single: 15, row: 13, deep: 5, thin: 3},
  {single: 14, row: 12, deep: 3, thin: 2},
  {single: 13, row: 12, deep: 1, thin: 2},
  {single: 12, row: 12, deep: 1, thin: 1},
]

/**
 * {height, lanes, row_top, row_height, headings}. `expanded` holds the indices of lanes shown with full rows;
 * `inside` puts each lane's label on a strip above its rows (narrow pages have no border for labels).
 */
export function layoutLanes(trace, {expanded, inside}) {
  for (const fit of FITS) {
    const layout = stackLanes(trace, fit, expanded, inside)
    const free_height = layout.height - layout.expanded_height
    if (free_height <= TARGET_HEIGHT || fit === FITS[FITS.length - 1]) return layout
  }
}

function stackLanes(trace, fit, expanded, inside) {
  const row_top = new Float64Array(trace.row_count)
  const row_height = new Float64Array(trace.row_count)
  const lanes = []
  const headings = []
  const groups = new Set(trace.lanes.map(groupOfLane))
  let top = 2
  let expanded_height = 0
  let group = null
  trace.lanes.forEach((lane, index) => {
    if (groups.size > 1 && groupOfLane(lane) !== group) {
      group = groupOfLane(lane)
      headings.push({label: headingOfLane(trace, lane), top, height: HEADING})
      top += HEADING
    }
    const expandable = lane.row_count > 1 && rowHeight(lane, fit, false) < FULL_ROW
    const is_expanded = expandable && expanded.has(index)
    const height_of_row = rowHeight(lane, fit, is_expanded)
    const strip = inside ? LABEL_STRIP : 0
    const height = Math.max(fit.single, height_of_row * lane.row_count)
    lanes.push({index, top, strip, height: height + strip, expandable, is_expanded})
    const padding = (height - height_of_row * lane.row_count) / 2
    for (let row = 0; row < lane.row_count; row++) {
      row_top[lane.first_row + row] = top + strip + padding + row * height_of_row
      row_height[lane.first_row + row] = height_of_row
    }
    if (is_expanded) expanded_height += height
    top += strip + height + LANE_GAP
  })
  return {height: Math.max(40, top), expanded_height, lanes, row_top, row_height, headings}
}

function rowHeight(lane, fit, is_expanded) {
  if (is_expanded) return FULL_ROW
  if (lane.row_count === 1) return fit.single
  return lane.row_count > fit.deep ? fit.thin : fit.row
}

function groupOfLane(lane) {
  return lane.device >= 0 ? lane.device : "host"
}

function headingOfLane(trace, lane) {
  return lane.device >= 0 ? trace.devices[lane.device].label : "Host"
}

/**
 * A lane's label for the border: below the heading of its device it need not repeat the device, and of a thread's
 * ranges the word "ranges" comes first, where it is not cut off.
 */
export function shownLabel(trace, layout, lane) {
  const label = lane.label.replace(/^(.*) · ranges$/, "ranges · $1")
  if (lane.device < 0 || layout.headings.length === 0) return label
  const prefix = `GPU ${trace.devices[lane.device].ordinal} `
  return label.startsWith(prefix) ? label.slice(prefix.length) : label
}

/** The row at `y` pixels from the top (the nearest one within its lane), or -1. */
export function rowAt(trace, layout, y) {
  const place = layout.lanes.find((lane) => y >= lane.top && y < lane.top + lane.height)
  if (!place) return -1
  const lane = trace.lanes[place.index]
  for (let row = lane.first_row; row < lane.first_row + lane.row_count; row++) {
    if (y >= layout.row_top[row] && y < layout.row_top[row] + layout.row_height[row]) return row
  }
  return -1
}
