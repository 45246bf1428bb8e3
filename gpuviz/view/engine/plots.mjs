// Puts the Bokeh figures of the item into places of our own page, and hides Bokeh's geometry behind a few calls.

import {element} from "./dom.mjs"

/**
 * `places`: {figure name: element}. Figures that have no place are left out. Returns {plots: {name: plot}, destroy}.
 * The item has the figures in one Column; they become roots of their own, so that titles and lane labels can be
 * ordinary HTML around them.
 */
export async function embedPlots(Bokeh, item, places) {
  const doc = structuredClone(item.doc)
  const figures = childrenOfLayout(doc.roots[0]).filter((figure) => places[figure.attributes.name])
  doc.roots = figures
  const render_item = {
    docid: "gpuviz",
    root_ids: figures.map((figure) => figure.id),
    roots: Object.fromEntries(figures.map((figure) => [figure.id, places[figure.attributes.name]])),
  }
  const [views] = await Bokeh.embed.embed_items({gpuviz: doc}, [render_item])
  const view_list = figures.map((figure) => views.get_by_id(figure.id))
  const plots = {}
  for (const view of view_list) plots[view.model.name] = makePlot(view, places[view.model.name])
  const bokeh_document = view_list[0].model.document
  return {plots, destroy: () => destroyDocument(Bokeh, bokeh_document, views)}
}

function childrenOfLayout(layout) {
  return layout.attributes.children
}

/** Names of the figures that an item holds. */
export function figureNames(item) {
  return childrenOfLayout(item.doc.roots[0]).map((figure) => figure.attributes.name)
}

function destroyDocument(Bokeh, bokeh_document, views) {
  views.clear()
  bokeh_document.clear()
  const index = Bokeh.documents.indexOf(bokeh_document)
  if (index >= 0) Bokeh.documents.splice(index, 1)
}

function makePlot(view, place) {
  const figure = view.model
  const find = (name) => figure.document.get_model_by_name(name)
  // Selecting glyphs is Bokeh's business, not ours: without renderers the tools only tell where they were dragged.
  for (const tool of figure.toolbar.tools) if ("renderers" in tool.properties) tool.renderers = []
  // One stop for the Tab key per plot, with our own focus ring: the element around the figure.
  view.canvas_view.events_el.removeAttribute("tabindex")
  const outline = element("div", {class: "gpuviz-outline"})
  place.after(outline)
  const plot = {
    figure, find,
    width: () => figure.inner_width || 800,
    setData: (name, data) => { find(name).data = data },
    /** Sizes in pixels; the frame gets exactly `height`, and one unit of its y axis is one pixel. */
    resize({height, left, right, bottom}) {
      figure.setv({
        min_border_left: left, min_border_right: right, min_border_top: 1, min_border_bottom: bottom,
        height: Math.round(height + 1 + bottom),
      })
      figure.y_range.setv({start: 0, end: height})
      Object.assign(outline.style, {left: `${left - 1}px`, right: `${right - 1}px`, height: `${Math.round(height) + 2}px`})
      plot.frame_height = height
    },
    frame_height: 1,
    /** Where a point of the window is in the frame: pixels from its left and top, and the value on the x axis. */
    pointAt(client_x, client_y) {
      const {left, top, width, height} = frameBox(view)
      const x = client_x - left
      const y = client_y - top
      const {start, end} = figure.x_range
      return {x, y, value: start + (x / width) * (end - start), inside: x >= 0 && x <= width && y >= 0 && y <= height}
    },
    /** Calls back with x and pixels from the top for taps within the frame; its borders are not part of the picture. */
    onTap(callback) {
      figure.on_event("tap", ({x, y}) => {
        const is_inside = x >= figure.x_range.start && x <= figure.x_range.end && y >= 0 && y <= plot.frame_height
        if (is_inside) callback(x, plot.frame_height - y)
      })
    },
    /** The point of the window where a value and a height (pixels from the frame's top) are drawn. */
    clientPoint(value, y) {
      const {left, top, width} = frameBox(view)
      const {start, end} = figure.x_range
      return {x: left + ((value - start) / (end - start)) * width, y: top + y}
    },
  }
  return plot
}

function frameBox(view) {
  const canvas = view.canvas_view.el.getBoundingClientRect()
  const {left, top, width, height} = view.frame.bbox
  return {left: canvas.left + left, top: canvas.top + top, width, height}
}

/** Colours that all figures share. */
export function paintFigure(figure, {surface}) {
  // The outline is our own element: Bokeh strokes one together with whatever path the canvas still holds, which leaves
  // lines where an annotation was.
  figure.setv({background_fill_color: null, border_fill_color: null, outline_line_color: null})
  figure.title.visible = false
  for (const axis of [...figure.below, ...figure.left]) {
    axis.setv({
      axis_line_color: surface.frame, major_tick_line_color: surface.frame, minor_tick_line_color: null,
      major_label_text_color: surface.muted, major_tick_in: 0, major_tick_out: 4, major_label_standoff: 4,
      major_label_text_font_size: "11px",
    })
  }
  for (const grid of figure.center) {
    if (grid.grid_line_color !== undefined) grid.grid_line_color = surface.grid
  }
}

/** Ticks of the time axis: [{at, label}]. */
export function setTimeTicks(figure, ticks) {
  const [axis] = figure.below
  const label_at = new Map(ticks.map(({at, label}) => [at, label]))
  const major = ticks.map(({at}) => at)
  // Changing the ticker's or formatter's properties would lay out the figure anew for every frame of a movement (and
  // Bokeh loses track of the views that it builds per label). Methods of the instances cost nothing: the axis asks
  // them whenever it is painted. They need no evaluated code either.
  axis.ticker.get_ticks = () => ({major, minor: []})
  axis.formatter.doFormat = (places) => places.map((place) => label_at.get(place) ?? "")
}

/** Labels of boxes that fit into them, widest first, at most `budget`. */
export function fitLabels(candidates, budget, clip) {
  if (candidates.length > budget) candidates = candidates.sort((a, b) => b.pixels - a.pixels).slice(0, budget)
  const columns = {x: [], y: [], text: [], color: []}
  for (const {x, y, pixels, text, color} of candidates) {
    const clipped = clip(text, pixels)
    if (!clipped) continue
    columns.x.push(x)
    columns.y.push(y)
    columns.text.push(clipped)
    columns.color.push(color)
  }
  return columns
}
