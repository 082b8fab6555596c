// Updates every relative time on the page once a second, from the server's clock and without requests.
//
// The page has the server's time at which it was rendered (data-now, in milliseconds). From there the browser's monotonic
// clock counts, so a wrong or changing system clock does not matter.

const GRACE_MS = 250

let offset = 0
let newest = 0

function synchronise(arrivedAt) {
  for (const element of document.querySelectorAll("[data-now]")) {
    const now = Number(element.dataset.now)
    if (now > newest) {
      newest = now
      offset = now - arrivedAt
    }
  }
}

// The same format as locks/dashboard/durations.py.
function humanize(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  const two = (number) => String(number).padStart(2, "0")
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

function update() {
  const now = performance.now() + offset
  for (const element of document.querySelectorAll("[data-since]")) setText(element, humanize(now - element.dataset.since))
  for (const element of document.querySelectorAll("[data-until]")) setText(element, humanize(element.dataset.until - now))
  for (const bar of document.querySelectorAll("[data-bar-end]")) {
    const percent = (bar.dataset.barEnd - now) / (bar.dataset.barSeconds * 10)
    bar.lastElementChild.setAttribute("width", Math.max(0, Math.min(100, percent)).toFixed(1))
  }
  // A state that has reached its end is fetched again, since only the server knows the next one. The grace makes sure that
  // the whole answer is from after the end.
  let due = false
  for (const element of document.querySelectorAll("[data-changes-at]:not([data-changes-at=''])")) {
    if (element.dataset.changesAt <= now - GRACE_MS) {
      element.dataset.changesAt = ""
      due = true
    }
  }
  if (due) document.dispatchEvent(new CustomEvent("lock-state-due"))
}

const [navigation] = performance.getEntriesByType("navigation")
synchronise(navigation?.responseStart ?? performance.now())
document.addEventListener("htmx:afterSwap", () => {
  synchronise(performance.now())
  update()
})
setInterval(update, 1000)
update()
