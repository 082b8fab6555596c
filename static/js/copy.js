// Copies what a button names, and takes secrets off the page when it is left: the back button must not show them again.

async function write(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text)
  // Over plain http the clipboard is closed to scripts; the old way is not.
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
  const words = button.querySelector("span")
  const before = words.innerHTML
  button.hidden = false
  button.addEventListener("click", async () => {
    try {
      await write(document.getElementById(button.dataset.copy).textContent)
      words.textContent = "Copied"
      document.getElementById("announcer").textContent = "Copied."
    } catch {
      words.textContent = "Select and copy it by hand"
    }
    setTimeout(() => { words.innerHTML = before }, 2500)
  })
}

window.addEventListener("pagehide", () => {
  for (const secret of document.querySelectorAll("[data-secret]")) secret.replaceChildren()
})
