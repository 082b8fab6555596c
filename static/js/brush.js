// Drag over the lanes of the timeline to zoom in: the fields From and To get the times, and the form is sent.

const MIN_PIXELS = 6
let start = null
let band = null

const lanes = () => document.querySelector("[data-brush]")
const share = (lane, x) => {
  const box = lane.getBoundingClientRect()
  return Math.min(1, Math.max(0, (x - box.left) / box.width))
}

// As a field of the type datetime-local has it, in UTC.
function moment(part) {
  const { begin, end } = lanes().dataset
  const milliseconds = Number(begin) + part * (Number(end) - Number(begin))
  return new Date(milliseconds).toISOString().slice(0, 19)
}

function draw(event) {
  const [from, to] = [share(start.lane, start.x), share(start.lane, event.clientX)].sort((one, other) => one - other)
  const lane = start.lane.getBoundingClientRect()
  const cell = start.lane.parentElement.getBoundingClientRect()
  band.style.left = `${lane.left - cell.left + from * lane.width}px`
  band.style.width = `${(to - from) * lane.width}px`
}

function stop() {
  band?.remove()
  band = null
  start = null
}

document.addEventListener("pointerdown", (event) => {
  const lane = event.target.closest("[data-lane]")
  if (!lane || event.button !== 0) return
  start = { lane, x: event.clientX }
  band = document.createElement("span")
  band.className = "lane-brush"
  lane.parentElement.append(band)
  event.preventDefault()
})
document.addEventListener("pointermove", (event) => { if (start) draw(event) })
document.addEventListener("pointercancel", stop)
document.addEventListener("pointerup", (event) => {
  if (!start) return
  const { lane, x } = start
  stop()
  if (Math.abs(event.clientX - x) < MIN_PIXELS || !lanes()) return
  const [from, to] = [share(lane, x), share(lane, event.clientX)].sort((one, other) => one - other)
  const form = document.querySelector("[data-filters]")
  form.elements.since.value = moment(from)
  form.elements.until.value = moment(to)
  form.requestSubmit()
})
