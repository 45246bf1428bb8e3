// Kernel names for small boxes: "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, …>(…)"
// becomes "CUDAFunctor_add (vectorized_elementwise_kernel)". The whole name is in the tooltip and in the panel.

const COMMON_NAMESPACES = /^(?:(?:at|native|c10|cuda|cub|thrust|cutlass|cudnn|detail|internal|impl|__5x_cudnn)::)+/

// These say nothing without one of their template arguments. For the first kind the argument says it all.
const NAMED_BY_ARGUMENT = new Set(["Kernel", "Kernel2", "kernel", "device_kernel"])
const GENERIC = new Set([
  "elementwise_kernel", "vectorized_elementwise_kernel", "unrolled_elementwise_kernel", "legacy_elementwise_kernel",
  "elementwise_kernel_with_index", "unrolled_elementwise_kernel_for_multi_outputs", "reduce_kernel",
  "multi_tensor_apply_kernel", "index_elementwise_kernel", "distribution_elementwise_grid_stride_kernel", "_kernel_agent",
])
// Types and wrappers that stand in front of the argument that matters.
const WRAPPERS = new Set([
  "int", "float", "double", "bool", "char", "long", "short", "unsigned", "signed", "void", "const", "volatile", "true", "false",
  "array", "Array", "BFloat16", "Half", "bfloat16_t", "half_t", "half", "float2", "lambda", "operator", "AUnaryFunctor",
  "BUnaryFunctor", "BinaryFunctor", "UnaryFunctor", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "ReduceOp",
  "func_wrapper_t", "TensorListMetadata", "TensorIteratorBase", "OffsetCalculator", "TrivialOffsetCalculator",
])
const IDENTIFIER = /(?<![\w$])[A-Za-z_]\w*(?!\w|::)/g

const LONGEST_TAIL = 32

const known_short_names = new Map()

export function shortKernelName(name) {
  let short = known_short_names.get(name)
  if (short === undefined) {
    short = shorten(name) || name
    // Traces have thousands of names at most; the limit only keeps a page with many traces in bounds.
    if (known_short_names.size > 20000) known_short_names.clear()
    known_short_names.set(name, short)
  }
  return short
}

/** Short names of those among `names` whose short names collide, with a tail that tells them apart: Map(name → label). */
export function distinctShortNames(names) {
  const groups = new Map()
  for (const name of new Set(names)) {
    const short = shortKernelName(name)
    if (!groups.has(short)) groups.set(short, [])
    groups.get(short).push(name)
  }
  const labels = new Map()
  for (const [short, group] of groups) {
    if (group.length < 2) continue
    const taken = new Set()
    for (const [index, tail] of differingParts(group).entries()) {
      const label = tail ? `${short} · ${tail}` : short
      labels.set(group[index], taken.has(label) ? `${label} #${index + 1}` : label)
      taken.add(label)
    }
  }
  return labels
}

// What is left of each name without the beginning and the end that all share, in whole words.
function differingParts(names) {
  const shared = (textOf) => {
    const texts = names.map(textOf)
    let count = 0
    while (texts.every((text) => count < text.length && text[count] === texts[0][count])) count++
    while (count > 0 && /\w/.test(texts[0][count - 1])) count--
    return count
  }
  const first = shared((name) => name)
  const last = shared((name) => [...name.slice(first)].reverse().join(""))
  return names.map((name) => {
    const part = name.slice(first, name.length - last)
    return part.length > LONGEST_TAIL ? `…${part.slice(1 - LONGEST_TAIL)}` : part
  })
}

function shorten(name) {
  const {outside, inside} = splitBrackets(name.replaceAll("(anonymous namespace)::", ""))
  if (inside === "") return outside
  // What precedes the last space is the return type.
  const base = outside.trim().split(/\s+/).pop().replace(COMMON_NAMESPACES, "")
  const last = base.split("::").pop()
  const hint = NAMED_BY_ARGUMENT.has(last) || GENERIC.has(last) ? tellingArgument(inside) : null
  if (hint === null) return base
  return NAMED_BY_ARGUMENT.has(last) ? hint : `${hint} (${last})`
}

/** What is outside of all <> and () and what is inside; an unclosed bracket (a cut name) reaches to the end. */
function splitBrackets(text) {
  const open = []
  let outside = ""
  let inside = ""
  for (const character of text) {
    const is_opening = character === "<" || character === "("
    if (is_opening) open.push(character)
    if (open.length) inside += character
    else outside += character
    // ">" within parentheses is a comparison.
    if (character === ">" && open[open.length - 1] === "<") open.pop()
    else if (character === ")" && open.includes("(")) while (open.pop() !== "(");
  }
  return {outside, inside}
}

function tellingArgument(text) {
  for (const [identifier] of text.matchAll(IDENTIFIER)) if (!WRAPPERS.has(identifier)) return identifier
  return null
}
