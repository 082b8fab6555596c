// Removes the invitation code from the URL, where it would stay in the history, and posts it.

function redeem() {
  const code = location.hash.slice(1)
  if (!code) return
  history.replaceState(null, "", location.pathname)
  const form = document.querySelector("[data-join]")
  form.elements.code.value = code
  form.requestSubmit()
}

redeem()
// A link opened in a tab that shows this page changes only the fragment.
addEventListener("hashchange", redeem)
