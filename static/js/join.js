// Takes the invitation off the address, where it would stay in the history, and posts it.

const code = location.hash.slice(1)

if (code) {
  history.replaceState(null, "", location.pathname)
  const form = document.querySelector("[data-join]")
  form.elements.code.value = code
  form.requestSubmit()
}
