// Passkeys: fetches the challenge from the server, lets the browser sign it, and submits the form with the result.
// A button with data-passkey="get" or "create" has the URL of the challenge in data-options; the form's hidden field
// [data-credential] gets the result.

const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))
const encode = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")
const decodeIds = (list) => list?.map((each) => ({ ...each, id: decode(each.id) }))

function decodeOptions(options) {
  return {
    ...options,
    challenge: decode(options.challenge),
    ...(options.user && { user: { ...options.user, id: decode(options.user.id) } }),
    ...(options.excludeCredentials && { excludeCredentials: decodeIds(options.excludeCredentials) }),
    ...(options.allowCredentials && { allowCredentials: decodeIds(options.allowCredentials) }),
  }
}

function toJson(credential) {
  const { response } = credential
  const sent = {
    id: credential.id,
    rawId: encode(credential.rawId),
    type: credential.type,
    clientExtensionResults: credential.getClientExtensionResults(),
    response: { clientDataJSON: encode(response.clientDataJSON) },
  }
  for (const part of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (response[part]) sent.response[part] = encode(response[part])
  }
  return sent
}

function showError(form, text) {
  const error = form.querySelector("[data-passkey-error]")
  if (!error) return
  error.textContent = text
  error.hidden = !text
}

async function sign(button) {
  const form = button.form
  if (!navigator.credentials || !window.PublicKeyCredential) {
    showError(form, "Passkeys need HTTPS and a host name, and a browser that supports them.")
    return
  }
  showError(form, "")
  button.disabled = true
  try {
    const response = await fetch(button.dataset.options, { headers: { Accept: "application/json" } })
    if (!response.ok) throw new Error("refused")
    const publicKey = decodeOptions((await response.json()).publicKey)
    const credential = await navigator.credentials[button.dataset.passkey]({ publicKey })
    form.querySelector("[data-credential]").value = JSON.stringify(toJson(credential))
    // The other fields are for other methods.
    form.noValidate = true
    form.requestSubmit()
  } catch (error) {
    const known = error?.name === "InvalidStateError"
    showError(form, known ? "This device already has a passkey for you." : "Nothing was signed. Try again.")
  } finally {
    button.disabled = false
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-passkey]")
  if (button) sign(button)
})
