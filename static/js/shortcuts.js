// Keyboard shortcuts. Off inside text fields and dialogs.

let goPending = false

// `g l`: the lock last viewed in this space and tab, or the search.
const nowPath = document.querySelector('[data-shortcut="n"]')?.pathname
if (nowPath && location.pathname.startsWith(`${nowPath}locks/`)) {
  sessionStorage.setItem(`octo-lock:${nowPath}`, location.pathname.replace(/\/force-release$/, ""))
}
if (location.hash === "#search") document.querySelector("[data-search]")?.select()

function goToLock() {
  const last = sessionStorage.getItem(`octo-lock:${nowPath}`)
  if (last && last !== location.pathname) location.assign(last)
  else if (location.pathname === nowPath) document.querySelector("[data-search]")?.select()
  else location.assign(`${nowPath}#search`)
}

function focusRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")]
  const current = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[Math.max(0, Math.min(rows.length - 1, current === -1 && step < 0 ? 0 : current + step))]
  next?.querySelector("[data-toggle]")?.focus()
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return
  if (event.target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur()
    return
  }
  if (goPending) {
    goPending = false
    event.preventDefault()
    if (event.key === "l" && nowPath) goToLock()
    else document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`)?.click()
    return
  }
  switch (event.key) {
    case "/":
      event.preventDefault()
      document.querySelector("[data-search]")?.select()
      break
    case "j":
      focusRow(1)
      break
    case "k":
      focusRow(-1)
      break
    case "x":
      document.activeElement.closest("[data-row]")?.querySelector("[data-select]")?.click()
      break
    case "g":
      goPending = true
      setTimeout(() => { goPending = false }, 1500)
      break
    case "p":
      document.dispatchEvent(new CustomEvent("live-toggle-pause"))
      break
    case "?":
      document.getElementById("shortcuts")?.showModal()
      break
  }
})
