// Keys, wheel and pointer → actions. Keys are taken only while the view has the focus.

const ZOOM_IN = 0.7
const PAN_SHARE = 0.2

export function listenToKeys(app, {store, flamegraph, toolbar, focusedView, returnFocus}) {
  const {actions, state} = store
  const zoom = (factor) => {
    if (focusedView() === "flamegraph") return flamegraph?.zoom(factor)
    const [from, to] = state.view
    const middle = (from + to) / 2
    actions.set_view([middle - (middle - from) * factor, middle + (to - middle) * factor], {glides: true})
  }
  const pan = (share) => {
    if (focusedView() === "flamegraph") return flamegraph?.pan(share)
    const [from, to] = state.view
    actions.set_view([from + share * (to - from), to + share * (to - from)], {glides: true})
  }
  const keys = {
    w: () => zoom(ZOOM_IN),
    s: () => zoom(1 / ZOOM_IN),
    a: () => pan(-PAN_SHARE),
    d: () => pan(PAN_SHARE),
    n: () => actions.step_occurrence(1),
    p: () => actions.step_occurrence(-1),
    x: actions.set_window_to_view,
    0: actions.reset,
    "/": toolbar.focusSearch,
    "?": () => actions.toggle_keys(),
    escape: actions.step_back,
    enter: actions.zoom_to_selection,
    arrowup: () => actions.move_selection("up"),
    arrowdown: () => actions.move_selection("down"),
    arrowleft: () => actions.move_selection("left"),
    arrowright: () => actions.move_selection("right"),
  }
  const listener = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const key = event.key.toLowerCase()
    if (isTyping(event.target)) {
      if (key === "escape") {
        if (state.query) actions.set_query("")
        else returnFocus()
        consume(event)
      } else if (key === "enter") {
        returnFocus()
        consume(event)
      }
      return
    }
    // A focused button does its own thing on Enter.
    if (key === "enter" && event.target.closest("button, summary")) return
    const action = keys[key]
    if (!action) return
    action()
    consume(event)
  }
  app.addEventListener("keydown", listener)
}

function isTyping(target) {
  return target.matches("input, textarea, select")
}

// The notebook around us must not see the key too: D, D deletes a cell there.
function consume(event) {
  event.preventDefault()
  event.stopPropagation()
}

/** Ctrl + wheel zooms at the pointer; a bare wheel scrolls the page. */
export function listenToWheel(place, zoom_at) {
  place.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return
    zoom_at(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.005), event.clientX)
    consume(event)
  }, {passive: false})
}

/** Tells the store what is under the pointer. */
export function listenToHover(place, hover_at, actions) {
  place.addEventListener("pointermove", (event) => {
    const found = event.buttons ? null : hover_at(event.clientX, event.clientY)
    place.classList.toggle("gpuviz-over-something", found !== null)
    actions.set_hover(found && {...found, client_x: event.clientX, client_y: event.clientY})
  })
  place.addEventListener("pointerleave", () => actions.set_hover(null))
  place.addEventListener("pointerdown", () => actions.set_hover(null))
}

/** While Shift is held at the start of a drag, dragging moves the view. */
export function listenToShiftDrag(place, timeline, state) {
  place.addEventListener("pointerdown", (event) => {
    if (!event.shiftKey) return
    timeline.activateTool(true)
    const end = () => {
      // Bokeh finishes its gesture on the same event; the tool changes after that.
      setTimeout(() => timeline.activateTool(state.drag_mode === "pan"))
      removeEventListener("pointerup", end, true)
      removeEventListener("pointercancel", end, true)
    }
    addEventListener("pointerup", end, true)
    addEventListener("pointercancel", end, true)
  }, true)
}
