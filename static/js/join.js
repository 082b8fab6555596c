// Takes the invitation off the address, where it would stay in the history, and posts it.

function redeem() {
  const code = location.hash.slice(1)
  if (!code) return
  history.replaceState(null, "", location.pathname)
  const form = document.querySelector("[data-join]")
  form.elements.code.value = code
  form.requestSubmit()
}

redeem()
// A link that is opened in the tab which shows this page changes only what is behind the #.
addEventListener("hashchange", redeem)
