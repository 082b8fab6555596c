// Keeps the page current: a stream announces changes, then the page fetches its live content and morphs.
//
// At most one fetch a second, or as data-refresh says. While the page is in use (a dialog is open, rows are selected, updates
// are paused), changes wait behind a pill. While the pointer is over the list or a row has the focus, rows change but keep
// their order. A hidden tab disconnects. Without a stream the page polls every five seconds, and
// data that was not confirmed for fifteen is marked as stale.

const REFRESH_MS = 1000
const POLL_MS = 5000
const STALE_MS = 15000
const canHover = matchMedia("(hover: hover)")

const live = document.getElementById("live")
const announcer = document.getElementById("announcer")

// Opened details stay open, and what waits for an answer stays busy: the server does not know of them.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
  name !== "aria-busy" && !(name === "open" && element.localName === "details")

// htmx reads the new address of a morphed link only when the swap has settled: a click before that would lose the filter.
document.addEventListener("htmx:configRequest", (event) => {
  event.detail.path = event.detail.elt.getAttribute("hx-get") ?? event.detail.path
})

if (live) {
  const label = live.querySelector("[data-live-mode]")
  const pill = live.querySelector("[data-show-changes]")
  const pause = live.querySelector("[data-pause]")
  const refreshMs = Number(live.dataset.refresh) || REFRESH_MS
  const announces = "announces" in live.dataset
  let stream = null
  let paused = false
  let pending = 0
  let orMore = false
  let fetching = false
  // The user has asked for what is fetched, so it is shown also while the page is in use.
  let isAsked = false
  // What was fetched last is on the page. It is not if the request failed, or the page was in use when it arrived.
  let isShown = false
  let timer = null
  let wasInterrupted = false
  // Rows were left where they were, so the list is not in its order.
  let isUnsorted = false
  let fetchedAt = performance.now()
  let confirmedAt = performance.now()

  const content = () => document.getElementById("live-content")
  const list = () => content()?.querySelector("[data-row]")?.parentElement
  const isHovered = () => canHover.matches && list()?.matches(":hover")
  // A tree is always in the order of its names.
  const isTree = () => list()?.querySelector(":scope > .folder")
  const keepsOrder = () => !isTree() && (isHovered() || list()?.contains(document.activeElement))
  // Rows of a group cannot keep their order when it changes, so they wait.
  const isBusy = () =>
    paused || document.querySelector("dialog[open]") || content()?.querySelector("input:checked") ||
    (list()?.querySelector(":scope > .group") && keepsOrder())
  // A hidden tab that watches a lock stays connected.
  const isAway = () => document.hidden && !("watching" in live.dataset)
  const isConnected = () => stream?.readyState === EventSource.OPEN

  const rowNumber = (element) => [...(content()?.querySelectorAll("[data-row]") ?? [])].findIndex((row) => row.contains(element))
  let focusedRow = -1

  function announce(text) {
    if (announcer.textContent !== text) announcer.textContent = text
  }

  function render() {
    const silence = performance.now() - confirmedAt
    const stale = silence > STALE_MS
    const mode = stale ? "stale" : paused ? "paused" : isConnected() ? "live" : "polling"
    const text = {
      stale: `Stale: last update ${Math.round(silence / 1000)} s ago`,
      paused: "Paused",
      live: "Live",
      polling: "Polling",
    }[mode]
    if (label.textContent !== text) label.textContent = text
    if (live.dataset.mode !== mode) {
      if (mode === "stale") announce("The data on this page is stale.")
      else if (live.dataset.mode === "stale") announce("The data on this page is current again.")
    }
    live.dataset.mode = mode
    content()?.classList.toggle("is-stale", stale)
    pill.hidden = pending === 0 || !(announces || isBusy())
    const count = announces ? `${pending}${orMore ? " or more" : ""} new, show` : `+${pending} change${pending === 1 ? "" : "s"}`
    if (!pill.hidden && pill.textContent !== count) pill.textContent = count
  }

  // A page that announces fetches the number of new rows, at most once a second.
  function fetchNewCount() {
    if (timer !== null) return
    timer = setTimeout(async () => {
      timer = null
      const url = content()?.dataset.newCountUrl
      if (!url || isAway()) return
      fetchedAt = performance.now()
      try {
        const response = await fetch(url, { headers: { Accept: "application/json" } })
        if (!response.ok) return
        confirmedAt = performance.now()
        const count = await response.json()
        if (url !== content()?.dataset.newCountUrl) return
        pending = count.new
        orMore = count.or_more
      } catch {
        // The next change tries again.
      }
      render()
    }, Math.max(0, fetchedAt + refreshMs - performance.now()))
  }

  function changed(number) {
    if (announces) {
      fetchNewCount()
      return
    }
    pending += number
    if (!isBusy()) refreshSoon()
    render()
  }

  function refreshSoon() {
    if (timer !== null || fetching) return
    timer = setTimeout(() => {
      timer = null
      if (!isBusy()) refresh()
      else if (!announces) pending = Math.max(pending, 1)
      render()
    }, Math.max(0, fetchedAt + refreshMs - performance.now()))
  }

  async function refresh({ asked = false } = {}) {
    clearTimeout(timer)
    timer = null
    if (isAway()) return
    if (fetching) {
      isAsked ||= asked
      return
    }
    fetching = true
    isAsked = asked
    fetchedAt = performance.now()
    const known = pending
    isShown = false
    try {
      await htmx.ajax("GET", location.pathname + location.search, { source: "#live-content", target: "#live-content", swap: "morph:outerHTML" })
    } catch {
      // confirmedAt tells whether it arrived.
    }
    fetching = false
    if (isShown) pending = announces ? 0 : pending - known
    else if (!announces) pending = Math.max(pending, 1)
    if (content()?.dataset.announce) announce(content().dataset.announce)
    if (pending > 0 && !isBusy() && !announces && isConnected()) refreshSoon()
    render()
  }

  function connect() {
    if (stream || isAway()) return
    stream = new EventSource(live.dataset.stream)
    const confirmed = () => {
      confirmedAt = performance.now()
      render()
    }
    // The stream does not announce what happened before it was open.
    stream.addEventListener("open", () => {
      if (!announces && !isBusy()) refreshSoon()
      else if (announces) fetchNewCount()
      else if (wasInterrupted) pending += 1
      wasInterrupted = false
      render()
    })
    stream.addEventListener("beat", confirmed)
    stream.addEventListener("changed", (event) => {
      confirmed()
      changed(Number(event.data) || 1)
    })
    stream.addEventListener("gone", () => location.reload())
    stream.addEventListener("error", () => {
      wasInterrupted = true
      render()
    })
  }

  function disconnect() {
    wasInterrupted = true
    stream?.close()
    stream = null
  }

  // New rows come last, and under the pointer a row that has ended stays as a faint one.
  function inShownOrder(html) {
    const template = document.createElement("template")
    template.innerHTML = html
    const incoming = template.content.querySelector("[data-row]")?.parentElement
    const shown = list()
    if (!incoming || !shown) return html
    const rows = new Map([...incoming.children].map((row) => [row.id, row]))
    const kept = []
    for (const row of shown.children) {
      if (rows.has(row.id)) {
        kept.push(rows.get(row.id))
        rows.delete(row.id)
      } else if (isHovered() && row.matches("[data-row]")) {
        const ended = row.cloneNode(true)
        ended.classList.add("is-ended")
        ended.title = "No longer listed"
        ended.removeAttribute("data-changes-at")
        kept.push(ended)
      }
    }
    incoming.replaceChildren(...kept, ...rows.values())
    return template.innerHTML
  }

  // A response to the URL before a filter was applied would undo the filter.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.requestConfig?.elt?.id !== "live-content") return
    isShown = (isAsked || !isBusy()) && event.detail.pathInfo.requestPath === location.pathname + location.search
    if (isShown) {
      isUnsorted = Boolean(keepsOrder())
      if (isUnsorted) event.detail.serverResponse = inShownOrder(event.detail.serverResponse)
      focusedRow = rowNumber(document.activeElement)
      return
    }
    event.detail.shouldSwap = false
  })
  // The row with the focus has ended: the next one gets it.
  document.addEventListener("htmx:afterSwap", () => {
    if (focusedRow < 0 || document.activeElement !== document.body) return
    const rows = content()?.querySelectorAll("[data-row]") ?? []
    const next = rows[Math.min(focusedRow, rows.length - 1)]?.querySelector("[data-toggle]")
    ;(next ?? document.getElementById("main"))?.focus()
    focusedRow = -1
  })
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.target?.id !== "live-content" || !event.detail.successful) return
    confirmedAt = performance.now()
    if (announces && event.detail.requestConfig?.elt?.id !== "live-content") pending = 0
  })
  document.addEventListener("lock-state-due", () => { if (!announces) refreshSoon() })
  document.addEventListener("live-resume", () => { if (!isBusy() && !announces) refreshSoon() })
  document.addEventListener("live-toggle-pause", () => pause.click())
  document.addEventListener("visibilitychange", () => {
    if (isAway()) {
      disconnect()
    } else {
      connect()
      if (!isBusy() && !announces) refreshSoon()
    }
  })
  window.addEventListener("pagehide", disconnect)
  window.addEventListener("pageshow", connect)
  pill.addEventListener("click", () => refresh({ asked: true }))
  pause.addEventListener("click", () => {
    paused = !paused
    pause.setAttribute("aria-pressed", String(paused))
    pause.title = paused ? "Resume (p)" : "Pause (p)"
    if (!paused) refreshSoon()
    render()
  })
  setInterval(() => {
    // The browser does not retry a stream that was refused.
    if (stream?.readyState === EventSource.CLOSED) {
      disconnect()
      connect()
    }
    if (!isConnected() && announces) fetchNewCount()
    else if (!isConnected() && !isBusy()) refreshSoon()
  }, POLL_MS)
  setInterval(() => {
    const hasNews = (pending > 0 && !announces && isConnected()) || (isUnsorted && !keepsOrder())
    if (hasNews && !isBusy()) refreshSoon()
    render()
  }, 1000)
  // For values that change without an event.
  if ("always" in live.dataset) setInterval(() => { if (!isBusy()) refreshSoon() }, refreshMs)

  pause.title = "Pause (p)"
  live.hidden = false
  connect()
  render()
}
