// Shows that a request of htmx is under way, and says so when one fails. The live refresh has its own sign beside the title.

const PROGRESS_AFTER_MS = 200

const dialog = document.getElementById("dialog")
const banner = document.getElementById("request-error")
const progress = document.getElementById("request-progress")
let underWay = 0

const isLiveRefresh = (event) => event.detail.elt?.id === "live-content"

function describe(event) {
  const { xhr, requestConfig } = event.detail
  const changes = requestConfig?.verb && requestConfig.verb !== "get"
  if (!navigator.onLine) return "Not sent: this browser is offline. Try again once it is connected."
  if (xhr.status >= 400 && xhr.status < 500) {
    const reason = new DOMParser().parseFromString(xhr.responseText, "text/html").querySelector(".lead")?.textContent
    return `Not done: ${reason?.trim() || `the server answered ${xhr.status}.`}`
  }
  const cause = xhr.status ? `the server answered ${xhr.status}` : "the server cannot be reached"
  return changes
    ? `Outcome unknown: ${cause}. Check the lock before you try again.`
    : `Not sent: ${cause}. Nothing was changed; try again.`
}

function show(event) {
  if (!banner || isLiveRefresh(event)) return
  banner.querySelector("span").textContent = describe(event)
  banner.hidden = false
  // A modal dialog covers everything outside of it.
  if (dialog?.open) dialog.prepend(banner)
  else document.body.append(banner)
  banner.scrollIntoView({ block: "nearest" })
}

function hide() {
  if (banner) banner.hidden = true
}

function renderProgress() {
  if (progress) progress.hidden = underWay === 0
}

for (const failure of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) document.addEventListener(failure, show)

document.addEventListener("htmx:beforeSend", (event) => {
  if (isLiveRefresh(event)) return
  hide()
  underWay += 1
  event.detail.elt.setAttribute("aria-busy", "true")
  setTimeout(renderProgress, PROGRESS_AFTER_MS)
})
document.addEventListener("htmx:afterRequest", (event) => {
  if (isLiveRefresh(event)) return
  underWay = Math.max(0, underWay - 1)
  event.detail.elt.removeAttribute("aria-busy")
  renderProgress()
})
banner?.querySelector("button").addEventListener("click", hide)
dialog?.addEventListener("close", hide)
