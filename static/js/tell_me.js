// "Tell me when it is free": watches the lock of this page, also while the tab is hidden, and says when it can be acquired. As a
// notification of the browser where that is allowed, and always as a message on the page.

const live = document.getElementById("live")
const message = document.getElementById("tell-me-message")
const button = () => document.getElementById("tell-me")
const state = () => document.querySelector("[data-lock-state]")?.dataset.lockState
let name = null

function render() {
  button()?.setAttribute("aria-pressed", String(name !== null))
  if (live) live.toggleAttribute("data-watching", name !== null)
}

function tell() {
  const text = `${name} is free.`
  name = null
  message.querySelector("span").textContent = text
  message.hidden = false
  if (window.Notification?.permission === "granted") new Notification(text, { tag: location.pathname })
  render()
}

document.addEventListener("click", async (event) => {
  const pressed = event.target.closest("[data-tell-me]")
  if (!pressed) return
  name = name === null ? pressed.dataset.tellMe : null
  message.hidden = true
  render()
  if (name !== null && window.Notification?.permission === "default") await Notification.requestPermission()
})
// After each refresh. In its cooldown, in a freeze or while a name that overlaps is held, the lock cannot be acquired yet.
document.addEventListener("htmx:afterSettle", () => {
  if (name !== null && ["free", "overdue"].includes(state())) tell()
  render()
})
