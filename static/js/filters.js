// Filters live in the address: what is empty stays out of it, and the form says what the address says.

// What a field says when the address says nothing: the first choice of a list.
const usual = (field) => field?.options?.[0]?.value ?? ""

document.addEventListener("htmx:configRequest", (event) => {
  if (!event.detail.elt.matches("[data-filters]")) return
  for (const [name, value] of [...event.detail.formData.entries()]) {
    if (value === "" || value === usual(event.detail.elt.elements[name])) event.detail.formData.delete(name)
  }
})

document.addEventListener("htmx:pushedIntoHistory", () => {
  const query = new URLSearchParams(location.search)
  for (const field of document.querySelectorAll("[data-filters] :is(input, select)")) {
    if (field === document.activeElement) continue
    field.value = query.get(field.name) ?? usual(field)
  }
})
