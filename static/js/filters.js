// Filters live in the address: what is empty stays out of it, and the form says what the address says.

document.addEventListener("htmx:configRequest", (event) => {
  if (!event.detail.elt.matches("[data-filters]")) return
  for (const [name, value] of [...event.detail.formData.entries()]) {
    if (value === "" || (name === "sort" && value === "trouble")) event.detail.formData.delete(name)
  }
})

document.addEventListener("htmx:pushedIntoHistory", () => {
  const query = new URLSearchParams(location.search)
  for (const field of document.querySelectorAll("[data-filters] :is(input, select)")) {
    if (field === document.activeElement) continue
    field.value = query.get(field.name) ?? (field.name === "sort" ? "trouble" : "")
  }
})
