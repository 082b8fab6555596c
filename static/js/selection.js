// Selected rows. A selection belongs to a hold (a lock under its fencing token), not to a name: it survives a refresh, and
// it is dropped when the lock has a new holder. While anything is selected, live.js keeps changes behind its pill.

const selected = new Set()
// Where a range begins that ends with a click while Shift is down.
let anchor = null
const announcer = document.getElementById("announcer")

const checkboxes = () => [...document.querySelectorAll("[data-select]")]

function render() {
  const all = checkboxes()
  for (const checkbox of all) checkbox.closest("[data-row]")?.classList.toggle("is-selected", checkbox.checked)
  for (const count of document.querySelectorAll("[data-selected-count]")) count.textContent = String(selected.size)
  for (const selectAll of document.querySelectorAll("[data-select-all]")) {
    selectAll.checked = all.length > 0 && selected.size === all.length
    selectAll.indeterminate = selected.size > 0 && !selectAll.checked
  }
}

function save() {
  selected.clear()
  for (const checkbox of checkboxes()) if (checkbox.checked) selected.add(checkbox.value)
  render()
  if (selected.size === 0) document.dispatchEvent(new CustomEvent("live-resume"))
}

// The server does not know the selection, so the rows it sends have none.
function restore() {
  const before = selected.size
  const remaining = checkboxes().filter((checkbox) => selected.has(checkbox.value))
  for (const checkbox of checkboxes()) checkbox.checked = selected.has(checkbox.value)
  selected.clear()
  for (const checkbox of remaining) selected.add(checkbox.value)
  const dropped = before - selected.size
  if (dropped > 0 && announcer) {
    announcer.textContent = `${dropped} selected row${dropped === 1 ? " is" : "s are"} no longer listed.`
  }
  render()
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-select-all]")) for (const checkbox of checkboxes()) checkbox.checked = event.target.checked
  if (event.target.matches("[data-select], [data-select-all]")) save()
})
document.addEventListener("click", (event) => {
  if (!event.target.matches("[data-select]")) return
  const all = checkboxes()
  const from = all.findIndex((checkbox) => checkbox.value === anchor)
  const to = all.indexOf(event.target)
  if (event.shiftKey && from >= 0) {
    for (const checkbox of all.slice(Math.min(from, to), Math.max(from, to) + 1)) checkbox.checked = event.target.checked
  }
  anchor = event.target.value
})
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-clear-selection]")) return
  for (const checkbox of checkboxes()) checkbox.checked = false
  save()
  document.querySelector("[data-row] [data-toggle]")?.focus()
})
document.addEventListener("htmx:afterSwap", restore)
// A browser that returns to the page may restore its checkboxes.
window.addEventListener("pageshow", save)
