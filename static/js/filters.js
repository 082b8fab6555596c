// Keeps empty and default filters out of the URL, and the form in step with the URL.

// The value of a field that the URL does not have: the first choice of a list.
const defaultValue = (field) => field?.options?.[0]?.value ?? ""

document.addEventListener("htmx:configRequest", (event) => {
  if (!event.detail.elt.matches("[data-filters]")) return
  for (const [name, value] of [...event.detail.formData.entries()]) {
    if (value === "" || value === defaultValue(event.detail.elt.elements[name])) event.detail.formData.delete(name)
  }
})

// The URL has the filters that were changed since the page was loaded.
document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-save-filter]")) event.target.elements.query.value = location.search
})

document.addEventListener("htmx:pushedIntoHistory", () => {
  const query = new URLSearchParams(location.search)
  for (const field of document.querySelectorAll("[data-filters] :is(input, select)")) {
    if (field === document.activeElement) continue
    if (field.type === "checkbox") field.checked = query.getAll(field.name).includes(field.value)
    else field.value = query.get(field.name) ?? defaultValue(field)
  }
})
