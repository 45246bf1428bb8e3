// Moves a Bokeh range to where the state wants it: at once, or in several frames where motion is welcome.

const MILLISECONDS = 180

/** `on_user_change(range)` is called when somebody else (a pan tool) moved the range. */
export function makeGlider(range, on_user_change) {
  let frame = null
  let is_own = false
  const place = (start, end) => {
    is_own = true
    range.setv({start, end})
    is_own = false
  }
  const listener = () => {
    if (!is_own) on_user_change([range.start, range.end])
  }
  range.properties.start.change.connect(listener)
  range.properties.end.change.connect(listener)
  const stop = () => {
    if (frame !== null) cancelAnimationFrame(frame)
    frame = null
  }
  return {
    shown: () => [range.start, range.end],
    isMoving: () => frame !== null,
    stop,
    /** `after_step` is called whenever the range has moved. */
    moveTo([start, end], glides, after_step) {
      stop()
      if (!glides || prefersCalm()) {
        place(start, end)
        after_step()
        return
      }
      const [old_start, old_end] = [range.start, range.end]
      const begin = performance.now()
      const step = () => {
        const share = Math.min(1, (performance.now() - begin) / MILLISECONDS)
        const eased = 1 - (1 - share) ** 3
        frame = share < 1 ? requestAnimationFrame(step) : null
        // The last step is exact: a sum of differences need not end on the target.
        if (share < 1) place(old_start + (start - old_start) * eased, old_end + (end - old_end) * eased)
        else place(start, end)
        after_step()
      }
      step()
    },
  }
}

function prefersCalm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches
}
