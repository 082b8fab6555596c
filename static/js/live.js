// Keeps the page current: one stream says that something changed, the page fetches what it shows and morphs.
//
// At most one fetch a second, or as seldom as the page says (data-refresh). While somebody is busy with the page (a dialog is open, rows are ticked, it is paused),
// changes wait behind a pill. A hidden tab disconnects. Without a stream the page asks every five seconds, and data
// that nobody has confirmed for fifteen says so.

const REFRESH_MS = 1000
const POLL_MS = 5000
const STALE_MS = 15000

const live = document.getElementById("live")
const announcer = document.getElementById("announcer")

// What somebody has opened stays open: the server does not know of it.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) => !(name === "open" && element.localName === "details")

if (live) {
  const word = live.querySelector("[data-live-word]")
  const pill = live.querySelector("[data-show-changes]")
  const pause = live.querySelector("[data-pause]")
  const refreshMs = Number(live.dataset.refresh) || REFRESH_MS
  const announces = "announces" in live.dataset
  let stream = null
  let paused = false
  let waiting = 0
  let orMore = false
  let fetching = false
  let timer = null
  let interrupted = false
  let fetchedAt = performance.now()
  let confirmedAt = performance.now()

  const board = () => document.getElementById("board")
  const isBusy = () => paused || document.querySelector("dialog[open]") || board()?.querySelector("input:checked")
  const isConnected = () => stream?.readyState === EventSource.OPEN

  function announce(words) {
    if (announcer.textContent !== words) announcer.textContent = words
  }

  function show() {
    const silence = performance.now() - confirmedAt
    const stale = silence > STALE_MS
    const mode = stale ? "stale" : paused ? "paused" : isConnected() ? "live" : "polling"
    const words = {
      stale: `Not current: last heard ${Math.round(silence / 1000)} s ago`,
      paused: "Paused",
      live: "Live",
      polling: "Asking every 5 s",
    }[mode]
    if (word.textContent !== words) word.textContent = words
    if (live.dataset.mode !== mode) {
      if (mode === "stale") announce("The data on this page is not current.")
      else if (live.dataset.mode === "stale") announce("The data on this page is current again.")
    }
    live.dataset.mode = mode
    board()?.classList.toggle("is-stale", stale)
    pill.hidden = waiting === 0 || !(announces || isBusy())
    const count = announces ? `${waiting}${orMore ? " or more" : ""} new, show` : `+${waiting} change${waiting === 1 ? "" : "s"}`
    if (!pill.hidden && pill.textContent !== count) pill.textContent = count
  }

  // A page that announces asks how much of what changed it would show, at most once a second.
  function askForNews() {
    if (timer !== null) return
    timer = setTimeout(async () => {
      timer = null
      const address = board()?.dataset.news
      if (!address || document.hidden) return
      fetchedAt = performance.now()
      try {
        const answer = await fetch(address, { headers: { Accept: "application/json" } })
        if (!answer.ok) return
        confirmedAt = performance.now()
        const news = await answer.json()
        if (address !== board()?.dataset.news) return
        waiting = news.new
        orMore = news.or_more
      } catch {
        // The next change asks again.
      }
      show()
    }, Math.max(0, fetchedAt + refreshMs - performance.now()))
  }

  function changed(number) {
    if (announces) {
      askForNews()
      return
    }
    waiting += number
    if (!isBusy()) refreshSoon()
    show()
  }

  function refreshSoon() {
    if (timer !== null || fetching) return
    timer = setTimeout(refresh, Math.max(0, fetchedAt + refreshMs - performance.now()))
  }

  async function refresh() {
    clearTimeout(timer)
    timer = null
    if (fetching || document.hidden) return
    fetching = true
    fetchedAt = performance.now()
    const known = waiting
    try {
      await htmx.ajax("GET", location.pathname + location.search, { source: "#live-content", target: "#live-content", swap: "morph:outerHTML" })
    } catch {
      // Whether it arrived shows in confirmedAt.
    }
    fetching = false
    waiting = announces ? 0 : waiting - known
    if (board()?.dataset.announce) announce(board().dataset.announce)
    if (waiting > 0 && !isBusy() && !announces) refreshSoon()
    show()
  }

  function connect() {
    if (stream || document.hidden) return
    stream = new EventSource(live.dataset.stream)
    const confirmed = () => {
      confirmedAt = performance.now()
      show()
    }
    // What happened before the stream was there, it will not tell.
    stream.addEventListener("open", () => {
      if (!announces && !isBusy()) refreshSoon()
      else if (announces) askForNews()
      else if (interrupted) waiting += 1
      interrupted = false
      show()
    })
    stream.addEventListener("beat", confirmed)
    stream.addEventListener("changed", (event) => {
      confirmed()
      changed(Number(event.data) || 1)
    })
    stream.addEventListener("gone", () => location.reload())
    stream.addEventListener("error", () => {
      interrupted = true
      show()
    })
  }

  function disconnect() {
    stream?.close()
    stream = null
  }

  // An answer to what the address said before somebody filtered would undo the filter.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.requestConfig?.elt?.id !== "board") return
    if (event.detail.pathInfo.requestPath === location.pathname + location.search) return
    event.detail.shouldSwap = false
    if (!isBusy() && !announces) refreshSoon()
  })
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.target?.id !== "board" || !event.detail.successful) return
    confirmedAt = performance.now()
    if (announces) waiting = 0
  })
  document.addEventListener("lock-state-due", () => { if (!isBusy() && !announces) refreshSoon() })
  document.addEventListener("live-resume", () => { if (!isBusy() && !announces) refreshSoon() })
  document.addEventListener("live-toggle-pause", () => pause.click())
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      disconnect()
    } else {
      connect()
      if (!isBusy() && !announces) refreshSoon()
    }
  })
  window.addEventListener("pagehide", disconnect)
  window.addEventListener("pageshow", connect)
  pill.addEventListener("click", refresh)
  pause.addEventListener("click", () => {
    paused = !paused
    pause.setAttribute("aria-pressed", String(paused))
    pause.title = paused ? "Go on (p)" : "Pause (p)"
    if (!paused) refreshSoon()
    show()
  })
  setInterval(() => {
    // A stream that was refused is not tried again by the browser.
    if (stream?.readyState === EventSource.CLOSED) {
      disconnect()
      connect()
    }
    if (!isConnected() && announces) askForNews()
    else if (!isConnected() && !isBusy()) refreshSoon()
  }, POLL_MS)
  setInterval(show, 1000)
  // What no change of a lock tells of.
  if ("always" in live.dataset) setInterval(() => { if (!isBusy()) refreshSoon() }, refreshMs)

  pause.title = "Pause (p)"
  live.hidden = false
  connect()
  show()
}
