// Making DOM nodes. Text goes in as text nodes only: names in a trace are hostile input.

/** element("td", {class: "number", data: {ns: 5}, on: {click}}, "5 ns", other_element) */
export function element(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children)
}

export function svgElement(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children)
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue
    if (name === "style") Object.assign(node.style, value)
    else if (name === "data") for (const [key, datum] of Object.entries(value)) node.setAttribute(`data-${key}`, datum)
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler)
    else node.setAttribute(name, value === true ? "" : value)
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false))
  return node
}

/**
 * Replaces what is in `node`; children that are null or false are left out. The keyboard's focus must not fall out of
 * our page area, where keys mean something else: it goes to the new element of the same `data-focus`, else to a plot.
 */
export function setContent(node, ...children) {
  const focused = node.contains(document.activeElement) && document.activeElement !== node ? document.activeElement : null
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false))
  if (focused) keepFocus(node, focused.dataset.focus)
}

function keepFocus(node, key) {
  const same = key === undefined ? undefined : [...node.querySelectorAll("[data-focus]")].find((candidate) => candidate.dataset.focus === key)
  const target = same ?? node.closest(".gpuviz-app")?.querySelector(".gpuviz-plot")
  target?.focus({preventScroll: true})
}

/** A coloured square in front of a name. */
export function swatch(color) {
  return element("span", {class: "gpuviz-swatch", style: {background: color}, "aria-hidden": "true"})
}

/** Stands at every picture of a trace that was not measured, so that a part of the page says it too. */
export function modelledBadge({modelled}) {
  return modelled ? element("span", {class: "gpuviz-badge", title: "Computed by the simulator, not measured"}, "modelled") : null
}

/** A number with its exact value on the element, for reading by programs: data-ns="1234". */
export function exactNumber(text, kind, value) {
  return element("span", {class: "gpuviz-number", data: {[kind]: value ?? "unknown"}}, text)
}
