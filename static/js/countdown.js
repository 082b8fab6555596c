// Lets every time on the page tick, from the server's clock and without traffic.
//
// The page says what the server's clock was when it was made (data-now, in milliseconds). From there on the browser's
// monotonic clock counts, so a wrong or changing clock of the computer does not matter.

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

// The same words as locks/dashboard/durations.py.
function inWords(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  const two = (number) => String(number).padStart(2, "0")
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`
}

function say(element, words) {
  if (element.textContent !== words) element.textContent = words
}

function tick() {
  const now = performance.now() + offset
  for (const element of document.querySelectorAll("[data-since]")) say(element, inWords(now - element.dataset.since))
  for (const element of document.querySelectorAll("[data-until]")) say(element, inWords(element.dataset.until - now))
  for (const bar of document.querySelectorAll("[data-bar]")) {
    const share = (bar.dataset.bar - now) / (bar.dataset.whole * 10)
    bar.lastElementChild.setAttribute("width", Math.max(0, Math.min(100, share)).toFixed(1))
  }
  // What has come to the end of its state is worth another look; the server alone knows what it is now. A moment later,
  // so that all of the server's answer is about the time after.
  let due = false
  for (const element of document.querySelectorAll("[data-next]:not([data-next=''])")) {
    if (element.dataset.next <= now - GRACE_MS) {
      element.dataset.next = ""
      due = true
    }
  }
  if (due) document.dispatchEvent(new CustomEvent("lock-state-due"))
}

const [navigation] = performance.getEntriesByType("navigation")
synchronise(navigation?.responseStart ?? performance.now())
document.addEventListener("htmx:afterSwap", () => {
  synchronise(performance.now())
  tick()
})
setInterval(tick, 1000)
tick()
