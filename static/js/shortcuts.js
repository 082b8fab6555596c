// The keyboard's way through the page. Off while somebody types.

let goes = false

// `g l`: the lock somebody looked at last in this space and tab, or a search for one.
const now = document.querySelector('[data-go="n"]')?.pathname
if (now && location.pathname.startsWith(`${now}locks/`)) {
  sessionStorage.setItem(`octo-lock:${now}`, location.pathname.replace(/\/force-release$/, ""))
}
if (location.hash === "#search") document.querySelector("[data-search]")?.select()

function goToLock() {
  const last = sessionStorage.getItem(`octo-lock:${now}`)
  if (last && last !== location.pathname) location.assign(last)
  else if (location.pathname === now) document.querySelector("[data-search]")?.select()
  else location.assign(`${now}#search`)
}

function rowStep(step) {
  const rows = [...document.querySelectorAll("[data-row]")]
  const at = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[Math.max(0, Math.min(rows.length - 1, at === -1 && step < 0 ? 0 : at + step))]
  next?.querySelector("[data-toggle]")?.focus()
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return
  if (event.target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur()
    return
  }
  if (goes) {
    goes = false
    event.preventDefault()
    if (event.key === "l" && now) goToLock()
    else document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click()
    return
  }
  switch (event.key) {
    case "/":
      event.preventDefault()
      document.querySelector("[data-search]")?.select()
      break
    case "j":
      rowStep(1)
      break
    case "k":
      rowStep(-1)
      break
    case "x":
      document.activeElement.closest("[data-row]")?.querySelector("[data-tick]")?.click()
      break
    case "g":
      goes = true
      setTimeout(() => { goes = false }, 1500)
      break
    case "p":
      document.dispatchEvent(new CustomEvent("live-toggle-pause"))
      break
    case "?":
      document.getElementById("keys")?.showModal()
      break
  }
})
