// The distribution of single durations as a small drawing: bins of equal width on a logarithmic axis.

import {svgElement} from "./dom.mjs"
import {countText, durationText} from "./text.mjs"
import {HISTOGRAM_BINS, histogramEdges} from "./statistics.mjs"

/** `statistics`: from tree.mjs. `with_axis` adds the labels of the axis and a tick at p50 and p99. */
export function drawHistogram(statistics, {width, height, color, ink, with_axis}) {
  const {histogram, min, max, p50, p99} = statistics
  const axis = with_axis ? 16 : 0
  const top = with_axis ? 12 : 0
  const svg = svgElement("svg", {
    class: "gpuviz-histogram", viewBox: `0 0 ${width} ${height + axis + top}`, width, height: height + axis + top, role: "img",
    "aria-label": `${countText(statistics.count)} durations from ${durationText(min)} to ${durationText(max)}, median ${durationText(p50)}`,
  })
  const highest = Math.max(1, ...histogram)
  const bar = width / HISTOGRAM_BINS
  histogram.forEach((count, bin) => {
    if (count === 0) return
    // The rarest bin stays visible.
    const size = Math.max(2, (height * count) / highest)
    const [from, to] = histogramEdges(min, max, bin)
    svg.append(svgElement("rect", {
      x: (bin * bar + 0.5).toFixed(2), y: (top + height - size).toFixed(2), width: (bar - 1).toFixed(2),
      height: size.toFixed(2), fill: color,
    }, svgElement("title", {}, `${countText(count)} between ${durationText(from)} and ${durationText(to)}`)))
  })
  svg.append(svgElement("line", {x1: 0, x2: width, y1: top + height + 0.5, y2: top + height + 0.5, stroke: ink, "stroke-opacity": 0.35}))
  if (with_axis) drawAxis(svg, {min, max, p50, p99, width, bottom: top + height, top, ink})
  return svg
}

function drawAxis(svg, {min, max, p50, p99, width, bottom, top, ink}) {
  const place = (value) => {
    const [low] = histogramEdges(min, max, 0)
    const [high] = histogramEdges(min, max, HISTOGRAM_BINS)
    return (width * Math.log(Math.max(1, value) / low)) / Math.log(high / low)
  }
  const text = (x, y, anchor, content) => svg.append(svgElement("text", {
    x: x.toFixed(1), y, "text-anchor": anchor, fill: ink, "font-size": 10,
  }, content))
  const mark = (value, label) => {
    const x = place(value)
    svg.append(svgElement("line", {
      x1: x, x2: x, y1: top - 1, y2: bottom, stroke: ink, "stroke-opacity": 0.6, "stroke-dasharray": "2 2",
    }))
    text(Math.min(Math.max(x, 10), width - 10), top - 3, "middle", label)
  }
  if (max > min) {
    mark(p50, "p50")
    // Two labels on one another say less than one.
    if (place(p99) - place(p50) > 26) mark(p99, "p99")
  }
  text(0, bottom + 13, "start", durationText(min))
  text(width / 2, bottom + 13, "middle", "duration of one, log scale")
  text(width, bottom + 13, "end", durationText(max))
}
