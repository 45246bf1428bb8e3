// The page's writer joins the modules into one script: these rules make that possible.

import assert from "node:assert/strict"
import {readFileSync, readdirSync} from "node:fs"
import {test} from "node:test"

const folder = new URL("../../../gpuviz/view/engine/", import.meta.url)
const modules = readdirSync(folder).filter((name) => name.endsWith(".mjs"))
const textOf = (name) => readFileSync(new URL(name, folder), "utf8")
const IMPORT = /^import \{[\w, ]+\} from "\.\/([\w-]+\.mjs)"$/

test("imports are one line of plain names", () => {
  for (const name of modules) {
    for (const line of textOf(name).split("\n").filter((text) => text.startsWith("import"))) assert.match(line, IMPORT, `${name}: ${line}`)
  }
})

test("exports stand only in front of declarations", () => {
  for (const name of modules) {
    for (const line of textOf(name).split("\n").filter((text) => text.startsWith("export"))) {
      assert.match(line, /^export (?:async )?(?:function|const|class) /, `${name}: ${line}`)
    }
  }
})

test("names at the top of modules are unique over all of them", () => {
  const owner = new Map()
  for (const name of modules) {
    for (const [, declared] of textOf(name).matchAll(/^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)/gm)) {
      assert.ok(!owner.has(declared), `${declared} is declared in ${owner.get(declared)} and in ${name}`)
      owner.set(declared, name)
    }
  }
})

test("what is imported is exported, and no module imports in a circle", () => {
  const imported = new Map(modules.map((name) => [name, textOf(name).split("\n").map((line) => line.match(IMPORT)?.[1]).filter(Boolean)]))
  const visit = (name, path) => {
    assert.ok(!path.includes(name), `circle: ${[...path, name].join(" → ")}`)
    for (const next of imported.get(name)) visit(next, [...path, name])
  }
  for (const name of modules) visit(name, [])
  for (const name of modules) {
    for (const [, names, from] of textOf(name).matchAll(/^import \{([^}]*)\} from "\.\/([\w-]+\.mjs)"/gm)) {
      for (const wanted of names.split(",").map((text) => text.trim())) {
        assert.match(textOf(from), new RegExp(`^export (?:async )?(?:function|const|class) ${wanted}\\b`, "m"), `${name}: ${wanted}`)
        assert.ok(textOf(name).split(new RegExp(`\\b${wanted}\\b`)).length > 2, `${name} imports ${wanted} and does not use it`)
      }
    }
  }
})

test("data never becomes markup or code", () => {
  for (const name of modules) assert.doesNotMatch(textOf(name), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function/, name)
})

test("files stay small enough to read", () => {
  for (const name of [...modules, "style.css"]) assert.ok(textOf(name).split("\n").length <= 400, name)
})

test("the style sheet leaves the page around it alone", () => {
  const css = textOf("style.css").replace(/\/\*[^]*?\*\//g, "")
  for (const [, selectors] of css.matchAll(/(?:^|[{}])\s*([^{}@]+)\{/g)) {
    for (const selector of selectors.split(",")) assert.match(selector.trim(), /^\.gpuviz/, selector)
  }
})
