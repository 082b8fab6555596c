// Applies the theme at once; the cookie carries it to the server for the next page.

for (const form of document.querySelectorAll("[data-themes]")) {
  form.addEventListener("submit", (event) => {
    const theme = event.submitter?.value
    if (!theme) return
    event.preventDefault()
    document.documentElement.dataset.theme = theme
    document.cookie = `octo_theme=${theme}; path=/; max-age=31536000; samesite=lax`
    for (const button of form.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.value === theme))
    }
  })
}
