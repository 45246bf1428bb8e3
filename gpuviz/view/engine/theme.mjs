// Whether the page around us is dark, and being told when that changes.

export function isDarkPage() {
  const {dataset, classList} = document.body
  if (dataset.jpThemeLight !== undefined) return dataset.jpThemeLight === "false"
  if (classList.contains("vscode-dark") || classList.contains("vscode-high-contrast")) return true
  if (classList.contains("vscode-light")) return false
  return matchMedia("(prefers-color-scheme: dark)").matches
}

/** Calls `on_change` whenever the page may have changed its theme; returns a function that stops it. */
export function watchTheme(on_change) {
  const observer = new MutationObserver(on_change)
  observer.observe(document.body, {attributes: true, attributeFilter: ["data-jp-theme-light", "class"]})
  const media = matchMedia("(prefers-color-scheme: dark)")
  media.addEventListener("change", on_change)
  return () => {
    observer.disconnect()
    media.removeEventListener("change", on_change)
  }
}
