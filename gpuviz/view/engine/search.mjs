// Search by regular expression. A pattern runs within the page, where nothing can stop it: patterns that can take
// exponential time are refused before they run, and the clock is read between names.

import {nodeName} from "./trace.mjs"

const SEARCH_BUDGET_MS = 400
const MOST_REPEATS = 6
/** Of longer names the beginning is searched. */
const MOST_CHARACTERS = 4000

const INVALID = "not a regular expression"
const NESTED = "too slow a regular expression: a repeat within a repeat"
const TOO_MANY = "too slow a regular expression: too many repeats"
export const TOO_SLOW = "too slow a regular expression: search stopped"

/** A regular expression (case-insensitive) from the search box: {pattern, error}; both null for an empty query. */
export function compileQuery(query) {
  if (!query) return {pattern: null, error: null}
  // ".*.*" finds what ".*" finds, in quadratic time.
  const text = query.replace(/(?<!\\)(?:\.\*){2,}/g, ".*")
  let pattern
  try {
    pattern = new RegExp(text, "i")
  } catch {
    return {pattern: null, error: INVALID}
  }
  const error = costOfPattern(text)
  return error ? {pattern: null, error} : {pattern, error: null}
}

// A repeated group that itself can match in several ways, such as (a+)+ or (a|aa)*, tries all combinations.
function costOfPattern(text) {
  const quantifier = /[*+?]|\{\d+(?:,\d*)?\}/y
  const groups = [{varies: false}]
  let repeats = 0
  let at = 0
  const quantifierHere = () => {
    quantifier.lastIndex = at
    const found = quantifier.exec(text)?.[0] ?? null
    if (found) at += found.length
    if (found && text[at] === "?") at++
    return found
  }
  while (at < text.length) {
    const character = text[at]
    let closed = null
    if (character === "\\") at += 2
    else if (character === "[") at = endOfClass(text, at)
    else at++
    if (character === "|") groups[groups.length - 1].varies = true
    if (character === "(") {
      groups.push({varies: false})
      if (text[at] === "?") at++
      continue
    }
    if (character === ")" && groups.length > 1) closed = groups.pop()
    const found = quantifierHere()
    if (found && found !== "?") {
      if (closed?.varies) return NESTED
      if (/^[*+]$|,\}$/.test(found) && ++repeats > MOST_REPEATS) return TOO_MANY
    }
    if (found || closed?.varies) groups[groups.length - 1].varies = true
  }
  return null
}

function endOfClass(text, at) {
  for (at++; at < text.length && text[at] !== "]"; at++) if (text[at] === "\\") at++
  return at + 1
}

/** Per node 1 where its name matches, each distinct name tested once; null where that takes longer than the budget. */
export function matchNodes(trace, pattern, now = () => performance.now()) {
  const matches = new Uint8Array(trace.node_count)
  if (!pattern) return matches
  const begin = now()
  const answers = new Map()
  for (let node = 0; node < trace.node_count; node++) {
    const name = trace.frames.name[trace.node_frame[node]]
    if (!answers.has(name)) {
      if (now() - begin > SEARCH_BUDGET_MS) return null
      answers.set(name, pattern.test(nodeName(trace, node).slice(0, MOST_CHARACTERS)))
    }
    if (answers.get(name)) matches[node] = 1
  }
  return matches
}
