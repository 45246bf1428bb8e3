// The entry: decodes everything first, and only then replaces the static picture, so that a failure leaves it standing.
//
// Names: camelCase inside the engine; snake_case for what crosses to Python or to tests (payload, state, actions,
// numbers).

import {decodePayload} from "./columns.mjs"
import {createTrace} from "./trace.mjs"
import {createStore} from "./store.mjs"
import {buildPage} from "./page.mjs"
import {embedPlots, figureNames} from "./plots.mjs"
import {makePalette} from "./palette.mjs"
import {isDarkPage, watchTheme} from "./theme.mjs"
import {makeClipper} from "./text.mjs"
import {makeGlider} from "./glide.mjs"
import {createHeader} from "./header.mjs"
import {createToolbar} from "./toolbar.mjs"
import {createFlamegraph} from "./flamegraph.mjs"
import {createTimeline} from "./timeline.mjs"
import {createCopies} from "./copies.mjs"
import {createDetails} from "./details.mjs"
import {createSource} from "./source.mjs"
import {createTooltip} from "./tooltip.mjs"
import {listenToHover, listenToKeys, listenToShiftDrag, listenToWheel} from "./inputs.mjs"

const LABEL_FONT = "11px Helvetica, Arial, sans-serif"
const EVERYTHING = [
  "start", "theme", "size", "lanes", "window", "metric", "query", "selection", "flame_range", "view", "drag_mode", "keys",
]

/** Starts the views in `root`. See the payload's writer for `payload`; `item` holds the three figures. */
export async function start({root, Bokeh, item, payload}) {
  try {
    const trace = createTrace(await decodePayload(payload))
    await startViews(root, Bokeh, item, trace)
  } catch (error) {
    // Whoever called says so below the picture, which still stands.
    root.querySelector(".gpuviz-app")?.remove()
    root.dataset.ready = "failed"
    throw error
  }
}

async function startViews(root, Bokeh, item, trace) {
  const fallback = [...root.childNodes]
  const page = buildPage(figureNames(item), trace.copies.count > 0)
  // Bokeh measures its places, so they are in the document, but not yet seen.
  page.app.classList.add("gpuviz-starting")
  root.append(page.app)
  const places = Object.fromEntries(Object.entries(page.views).map(([name, view]) => [name, view.figure]))
  const {plots, destroy} = await embedPlots(Bokeh, item, places)
  const engine = connectViews(page, plots, trace)
  for (const node of fallback) node.remove()
  page.app.classList.remove("gpuviz-starting")
  engine.draw(...EVERYTHING)
  root.gpuviz = {
    ...engine.handle,
    destroy() {
      engine.stop()
      destroy()
      page.app.remove()
      delete root.gpuviz
      delete root.dataset.ready
    },
  }
  root.dataset.ready = "1"
}

function connectViews(page, plots, trace) {
  const theme = {palette: makePalette(isDarkPage(), trace.layers)}
  const scheduler = makeScheduler((changed) => update(changed))
  const store = createStore(trace, scheduler.request)
  const {state, actions, derived} = store
  const clip = makeClipper(canvasMeasure())
  const shared = {store, theme, clip, page}
  const header = createHeader({...shared, place: page.header})
  const toolbar = createToolbar({...shared, place: page.toolbar})
  const make = (create, name) => (plots[name] ? create({...shared, ...page.views[name], plot: plots[name]}) : null)
  const flamegraph = make(createFlamegraph, "flamegraph")
  const timeline = make(createTimeline, "timeline")
  const copies = make(createCopies, "copies")
  const details = createDetails({...shared, panel: page.details})
  const source = createSource({...shared, panel: page.details})
  const tooltip = createTooltip({...shared, box: page.tooltip, app: page.app})
  // Timeline and copies share one time range.
  const time_plot = plots.timeline ?? plots.copies
  const time_glider = time_plot ? makeGlider(time_plot.figure.x_range, actions.set_view) : null
  const views = [header, toolbar, flamegraph, timeline, copies, details, source, tooltip].filter(Boolean)

  function update(changed) {
    if (changed.has("theme")) applyTheme()
    if (changed.has("size")) page.fitWidth()
    for (const view of views) view.update(changed)
    if (!time_glider) return
    if (changed.has("view")) time_glider.moveTo(state.view, state.glides && !changed.has("start"), drawTimePlots)
    else if (["selection", "query", "theme", "size", "lanes"].some((what) => changed.has(what))) drawTimePlots()
  }

  function drawTimePlots() {
    const shown = time_glider.shown()
    timeline?.draw(shown)
    copies?.draw(shown)
  }

  function applyTheme() {
    theme.palette = makePalette(isDarkPage(), trace.layers)
    page.app.classList.toggle("gpuviz-dark", theme.palette.is_dark)
  }

  const drawn_views = {flamegraph, timeline, copies}
  for (const [name, {plot}] of Object.entries(page.views)) {
    listenToHover(plot, drawn_views[name].hoverAt, actions)
    listenToWheel(plot, name === "flamegraph" ? flamegraph.zoom : zoomTimeAt)
    if (name === "timeline") listenToShiftDrag(plot, timeline, state)
    plot.addEventListener("pointerdown", () => plot.focus({preventScroll: true}))
  }
  listenToKeys(page.app, {
    store, flamegraph, toolbar,
    focusedView: () => document.activeElement?.closest?.(".gpuviz-view")?.dataset.view ?? "timeline",
    returnFocus: () => Object.values(page.views)[0]?.plot.focus({preventScroll: true}),
  })

  function zoomTimeAt(factor, client_x) {
    const [from, to] = state.view
    const at = time_plot.pointAt(client_x, 0).value
    actions.set_view([at - (at - from) * factor, at + (to - at) * factor])
  }

  const stop_theme = watchTheme(() => {
    if (isDarkPage() !== theme.palette.is_dark) scheduler.request("theme")
  })
  const stop_size = watchWidth(plots, () => scheduler.request("size"))

  return {
    draw: scheduler.now,
    stop() {
      stop_theme()
      stop_size()
      scheduler.stop()
      time_glider?.stop()
      flamegraph?.destroy()
    },
    handle: {
      actions,
      numbers: store.numbers,
      state: () => ({
        view: [...state.view], window: state.window && [...state.window], selected_node: state.selected_node,
        selected_box: state.selected_box, focus_node: state.focus_node, metric: state.metric, query: state.query,
        query_error: derived.query_error, drag_mode: state.drag_mode,
        boxes_drawn: sumOf([flamegraph, timeline, copies], "boxes"), labels_drawn: sumOf([flamegraph, timeline, copies], "labels"),
        recompute_ms: derived.recompute_ms, draw_ms: scheduler.draw_ms(), theme: theme.palette.is_dark ? "dark" : "light",
        is_settled: !scheduler.isPending() && !time_glider?.isMoving() && !flamegraph?.isMoving(),
      }),
      /** Where things are in the browser's window, for tests and for pointing at them: {x, y} or null. */
      position_of_node: (node) => flamegraph?.positionOf(node) ?? null,
      position_of_box: (box) => timeline?.positionOf(box) ?? null,
    },
  }
}

function sumOf(views, name) {
  return views.filter(Boolean).reduce((sum, view) => sum + view.counts()[name], 0)
}

/** Collects what has changed and redraws once per frame. */
function makeScheduler(update) {
  let changed = new Set()
  let frame = null
  let draw_ms = 0
  const run = () => {
    frame = null
    const now = changed
    changed = new Set()
    const begin = performance.now()
    update(now)
    draw_ms = performance.now() - begin
  }
  return {
    request(...what) {
      for (const name of what) changed.add(name)
      frame ??= requestAnimationFrame(run)
    },
    now(...what) {
      for (const name of what) changed.add(name)
      if (frame !== null) cancelAnimationFrame(frame)
      run()
    },
    stop() {
      if (frame !== null) cancelAnimationFrame(frame)
    },
    isPending: () => frame !== null,
    draw_ms: () => draw_ms,
  }
}

function canvasMeasure() {
  const context = document.createElement("canvas").getContext("2d")
  context.font = LABEL_FONT
  return (character) => context.measureText(character).width
}

// Bokeh tells when it has laid out a figure anew; that is also the case when a notebook puts the node back.
function watchWidth(plots, on_change) {
  const figures = Object.values(plots).map((plot) => plot.figure)
  for (const figure of figures) figure.properties.inner_width.change.connect(on_change)
  return () => { for (const figure of figures) figure.properties.inner_width.change.disconnect(on_change) }
}
