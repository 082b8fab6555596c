// Passkeys: asks the server what to sign, lets the browser sign it, and sends the form with the result.
// A button with data-passkey="get" or "create" names in data-options where the server says what to sign; the form's
// hidden field [data-credential] takes what was signed.

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")
const withBytes = (list) => list?.map((each) => ({ ...each, id: bytes(each.id) }))

function readable(options) {
  return {
    ...options,
    challenge: bytes(options.challenge),
    ...(options.user && { user: { ...options.user, id: bytes(options.user.id) } }),
    ...(options.excludeCredentials && { excludeCredentials: withBytes(options.excludeCredentials) }),
    ...(options.allowCredentials && { allowCredentials: withBytes(options.allowCredentials) }),
  }
}

function sendable(credential) {
  const { response } = credential
  const sent = {
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    clientExtensionResults: credential.getClientExtensionResults(),
    response: { clientDataJSON: text(response.clientDataJSON) },
  }
  for (const part of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (response[part]) sent.response[part] = text(response[part])
  }
  return sent
}

function say(form, words) {
  const place = form.querySelector("[data-passkey-error]")
  if (!place) return
  place.textContent = words
  place.hidden = !words
}

async function sign(button) {
  const form = button.form
  if (!navigator.credentials || !window.PublicKeyCredential) {
    say(form, "This browser has no passkeys here. It wants https and a host name.")
    return
  }
  say(form, "")
  button.disabled = true
  try {
    const answer = await fetch(button.dataset.options, { headers: { Accept: "application/json" } })
    if (!answer.ok) throw new Error("the server said no")
    const publicKey = readable((await answer.json()).publicKey)
    const credential = await navigator.credentials[button.dataset.passkey]({ publicKey })
    form.querySelector("[data-credential]").value = JSON.stringify(sendable(credential))
    // Other fields of the form are for other ways to prove it.
    form.noValidate = true
    form.requestSubmit()
  } catch (error) {
    const known = error?.name === "InvalidStateError"
    say(form, known ? "This device has a passkey for you already." : "Nothing was signed. Try again when you are ready.")
  } finally {
    button.disabled = false
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-passkey]")
  if (button) sign(button)
})
