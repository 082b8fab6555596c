// Ticked rows. A tick belongs to a holder (a lock under its fencing token), not to a name: it survives a refresh, and it
// is gone when somebody else holds the lock. While anything is ticked, live.js lets changes wait behind its pill.

const ticked = new Set()
const announcer = document.getElementById("announcer")

const boxes = () => [...document.querySelectorAll("[data-tick]")]

function show() {
  const all = boxes()
  for (const box of all) box.closest("[data-row]")?.classList.toggle("is-ticked", box.checked)
  for (const count of document.querySelectorAll("[data-ticked]")) count.textContent = String(ticked.size)
  for (const whole of document.querySelectorAll("[data-tick-all]")) {
    whole.checked = all.length > 0 && ticked.size === all.length
    whole.indeterminate = ticked.size > 0 && !whole.checked
  }
}

function remember() {
  ticked.clear()
  for (const box of boxes()) if (box.checked) ticked.add(box.value)
  show()
  if (ticked.size === 0) document.dispatchEvent(new CustomEvent("live-resume"))
}

// The server knows nothing of ticks, so what it sends has none.
function restore() {
  const before = ticked.size
  const here = new Set()
  for (const box of boxes()) {
    box.checked = ticked.has(box.value)
    if (box.checked) here.add(box.value)
  }
  ticked.clear()
  for (const value of here) ticked.add(value)
  const lost = before - ticked.size
  if (lost > 0 && announcer) announcer.textContent = `${lost} ticked row${lost === 1 ? " is" : "s are"} no longer here.`
  show()
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-tick-all]")) for (const box of boxes()) box.checked = event.target.checked
  if (event.target.matches("[data-tick], [data-tick-all]")) remember()
})
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-untick]")) return
  for (const box of boxes()) box.checked = false
  remember()
  document.querySelector("[data-row] [data-toggle]")?.focus()
})
document.addEventListener("htmx:afterSwap", restore)
// A browser that comes back to the page may bring the ticks along.
window.addEventListener("pageshow", remember)
