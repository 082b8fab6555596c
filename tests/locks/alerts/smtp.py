"""A mail server on loopback that keeps what it gets."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast


@dataclass
class MailServer:
    port: int
    # To refuse messages with.
    refusal: str | None = None
    mails: list[EmailMessage] = field(default_factory=list)


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        mail_server: MailServer = self.server.mail_server  # type: ignore[attr-defined]
        self._reply("220 ready")
        while line := self.rfile.readline():
            match line.strip().upper().split(b" ")[0].split(b":")[0]:
                case b"DATA":
                    self._reply("354 go on")
                    body = b"".join(iter(self.rfile.readline, b".\r\n"))
                    if mail_server.refusal:
                        self._reply(mail_server.refusal)
                        continue
                    mail_server.mails.append(cast(EmailMessage, message_from_bytes(body, policy=policy.default)))
                    self._reply("250 kept")
                case b"QUIT":
                    self._reply("221 bye")
                    return
                case _:
                    self._reply("250 fine")

    def _reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session) as server:
        server.daemon_threads = True
        running = MailServer(server.server_address[1])
        server.mail_server = running  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield running
        server.shutdown()
        thread.join()
