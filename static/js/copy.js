// Copy buttons. Secrets are removed when the page is left, so that the back button does not show them again.

async function write(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text)
  // The clipboard API needs a secure context; over plain HTTP this older way works.
  const field = document.createElement("textarea")
  field.value = text
  field.className = "visually-hidden"
  document.body.append(field)
  field.select()
  const copied = document.execCommand("copy")
  field.remove()
  if (!copied) throw new Error("not copied")
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.querySelector("span")
  const before = label.innerHTML
  button.hidden = false
  button.addEventListener("click", async () => {
    try {
      await write(document.getElementById(button.dataset.copy).textContent)
      label.textContent = "Copied"
      document.getElementById("announcer").textContent = "Copied."
    } catch {
      label.textContent = "Copy it by hand"
    }
    setTimeout(() => { label.innerHTML = before }, 2500)
  })
}

window.addEventListener("pagehide", () => {
  for (const secret of document.querySelectorAll("[data-secret]")) secret.replaceChildren()
})
