// Opens what htmx puts into the dialog, and empties the dialog when it closes. The browser returns the focus.

const dialog = document.getElementById("dialog")

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target !== dialog) return
  if (!dialog.open) dialog.showModal()
  dialog.querySelector("[autofocus], .button-primary")?.focus({ preventScroll: true })
  // What the dialog is about stands at its top.
  dialog.scrollTop = 0
})

dialog?.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) {
    event.preventDefault()
    dialog.close()
  }
})

dialog?.addEventListener("close", () => {
  dialog.replaceChildren()
  document.dispatchEvent(new CustomEvent("live-resume"))
})

// One menu at a time, closed by a click elsewhere or Escape.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false
})
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false
    menu.querySelector("summary").focus()
  }
})
