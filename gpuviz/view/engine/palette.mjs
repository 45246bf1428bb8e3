// Colours of the layers for a light and a dark page. Python, op, api, kernel and memcpy were found by search over four
// kinds of colour vision; the others were chosen so that layers that lie next to each other stay apart in all four.

const LIGHT_LAYERS = {
  root: "#C4C9CF", group: "#9AA3AD", cell: "#4D6B11", line: "#A7C5A7", python: "#56B4E9", module: "#2F6BA7", op: "#CCBB44",
  other: "#89A7A7", api: "#882255", kernel: "#EE6677", memcpy: "#332288", memset: "#E3A7E3", graph_run: "#E389C5",
  range: "#8B8B5A", sync: "#5A5F66",
}

const DARK_LAYERS = {
  root: "#4A5058", group: "#6B747E", cell: "#6B892F", line: "#A7C5A7", python: "#88CCEE", module: "#3F7FC0", op: "#EEDD88",
  other: "#A7B5B5", api: "#C04070", kernel: "#E69F00", memcpy: "#8866EE", memset: "#E3A7E3", graph_run: "#F28CC8",
  range: "#A7A76B", sync: "#8A949E",
}

export const LAYER_LABELS = {
  root: "all", group: "group", cell: "cell", line: "line", python: "Python", module: "module", op: "op", other: "other call",
  api: "CUDA API", kernel: "kernel", memcpy: "copy", memset: "memset", graph_run: "graph run", range: "range", sync: "wait",
}

const LIGHT_SURFACE = {
  unselected: "#D9DDE1", unselected_text: "#59616A", match: "#F0E442", ink: "#1B1F24", muted: "#5A626B", grid: "#E8EBEE",
  frame: "#D0D5DA", selection: "#111111", band: "#F3F5F7", window: "#8A6100", arrow: "#1B1F24",
}

const DARK_SURFACE = {
  unselected: "#3A3F45", unselected_text: "#AEB6BE", match: "#F0E442", ink: "#E6E9EC", muted: "#A3ABB3", grid: "#2A2E33",
  frame: "#3C4248", selection: "#FFFFFF", band: "#1B1E22", window: "#F0E442", arrow: "#FFFFFF",
}

const HIDDEN_COLOR = "#0072B2"
const EXPOSED_COLOR = "#D55E00"

/** Everything that a view needs to colour itself: {is_dark, layer, text_on_layer, surface, …}. */
export function makePalette(is_dark, layers) {
  const colors = is_dark ? DARK_LAYERS : LIGHT_LAYERS
  const layer = layers.map((name) => colors[name] ?? colors.other)
  return {
    is_dark, layer,
    text_on_layer: layer.map(textOn),
    rgb_of_layer: layer.map(rgbOf),
    by_name: colors,
    surface: is_dark ? DARK_SURFACE : LIGHT_SURFACE,
    hidden: is_dark ? "#3A9BDC" : HIDDEN_COLOR,
    exposed: is_dark ? "#F08A3C" : EXPOSED_COLOR,
  }
}

export function rgbOf(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16))
}

/** Between two colours given as [red, green, blue]; `share` of the second. */
export function mixColors(first, second, share) {
  return first.map((value, index) => Math.round(value + (second[index] - value) * share))
}

/** Black or white, whichever has the higher contrast on `color`. */
export function textOn(color) {
  const light = luminance(color)
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000000" : "#ffffff"
}

function luminance(color) {
  const [red, green, blue] = rgbOf(color).map((value) => {
    const share = value / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
