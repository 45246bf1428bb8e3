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

/** Replaces what is in `node`; children that are null or false are left out. */
export function setContent(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false))
}

/** A coloured square in front of a name. */
export function swatch(color) {
  return element("span", {class: "gpuviz-swatch", style: {background: color}, "aria-hidden": "true"})
}

/** A number with its exact value on the element, for reading by programs: data-ns="1234". */
export function exactNumber(text, kind, value) {
  return element("span", {class: "gpuviz-number", data: {[kind]: value ?? "unknown"}}, text)
}
