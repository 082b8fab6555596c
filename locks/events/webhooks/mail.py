"""One attempt to send a message by e-mail, through the SMTP server of the settings."""

import smtplib
import time

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.validators import validate_email

from locks.events.webhooks.messages import Message, plain_text
from locks.events.webhooks.sending import ATTEMPT_SECONDS, AttemptResult

MAX_RECIPIENTS = 10
NOT_CONFIGURED = "E-mail is not configured on this server: EMAIL_HOST is not set."
# The reply of SMTP to a message that was accepted.
ACCEPTED = 250


class InvalidRecipients(ValueError):
    """The message says what is wrong."""


def parse_recipients(text: str) -> list[str]:
    recipients = list(dict.fromkeys(text.replace(",", " ").split()))
    if not recipients:
        raise InvalidRecipients("Enter an e-mail address.")
    if len(recipients) > MAX_RECIPIENTS:
        raise InvalidRecipients(f"At most {MAX_RECIPIENTS} addresses.")
    for recipient in recipients:
        try:
            validate_email(recipient)
        except ValidationError:
            raise InvalidRecipients(f"{recipient} is not an e-mail address.") from None
    return recipients


def send_mail(message: Message, *, recipients: list[str], delivery_id: str) -> AttemptResult:
    """A repeated attempt has the same Message-ID, so that the receiving side can tell it from a second message."""
    if not settings.EMAIL_HOST:
        return AttemptResult(duration_ms=0, error=NOT_CONFIGURED)
    began = time.monotonic()
    status: int | None = ACCEPTED
    error: str | None = None
    mail = EmailMessage(
        subject=" ".join(f"{message.title} · {message.place}".split()),
        body=plain_text(message),
        to=recipients,
        headers={
            "Message-ID": f"<{delivery_id}@octoadmin>", "X-OctoStore-Delivery-Id": delivery_id,
            "Auto-Submitted": "auto-generated",
        },
        connection=get_connection(timeout=ATTEMPT_SECONDS / 2),
    )  # fmt: skip
    try:
        mail.send()
    except smtplib.SMTPRecipientsRefused:
        status, error = None, "The mail server refused all recipients."
    except smtplib.SMTPResponseException as refusal:
        status, error = refusal.smtp_code if refusal.smtp_code >= 300 else None, "The mail server refused the message."
    except smtplib.SMTPException:
        status, error = None, "The mail server did not accept the message."
    except TimeoutError:
        status, error = None, "The mail server was too slow."
    except (OSError, ValueError):
        status, error = None, "The mail server cannot be reached."
    return AttemptResult(duration_ms=int((time.monotonic() - began) * 1000), status=status, error=error)
