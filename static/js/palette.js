// The search over all spaces: Ctrl K or ⌘ K opens it on any page. Arrows choose a result, Enter opens it, Escape closes.

const palette = document.getElementById("palette")
const opener = document.getElementById("palette-open")

if (palette && opener) {
  const form = palette.querySelector("form")
  const input = form.elements.q
  const status = palette.querySelector("[data-palette-status]")
  const options = () => [...palette.querySelectorAll("[role=option]")]
  const chosen = () => palette.querySelector("[aria-selected=true]")

  if (/Mac|iPhone|iPad/.test(navigator.platform)) opener.querySelector("kbd").textContent = "⌘ K"

  function open() {
    if (palette.open || document.querySelector("dialog[open]")) return
    palette.showModal()
    input.select()
    htmx.trigger(form, "palette-open")
  }

  function choose(option) {
    chosen()?.setAttribute("aria-selected", "false")
    option?.setAttribute("aria-selected", "true")
    option?.scrollIntoView({ block: "nearest" })
    if (option) input.setAttribute("aria-activedescendant", option.id)
    else input.removeAttribute("aria-activedescendant")
  }

  function step(by) {
    const all = options()
    if (all.length) choose(all[(all.indexOf(chosen()) + by + all.length) % all.length] ?? all[0])
  }

  opener.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    open()
  })
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
    event.preventDefault()
    if (palette.open) palette.close()
    else open()
  })
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") step(1)
    else if (event.key === "ArrowUp") step(chosen() ? -1 : 0)
    else if (event.key === "Enter" && chosen()) chosen().click()
    else return
    event.preventDefault()
  })
  // Of a token only the public part is sent: its secret belongs into no address.
  input.addEventListener("input", () => {
    const token = input.value.match(/octo_([0-9A-Za-z]{12})_[0-9A-Za-z]+/)
    if (token) input.value = token[1]
  })
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close() })
  palette.addEventListener("close", () => document.dispatchEvent(new CustomEvent("live-resume")))
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "palette-results") return
    const all = options()
    choose(input.value ? all[0] : null)
    status.textContent = all.length === 1 ? "1 result" : `${all.length} results`
  })
}
