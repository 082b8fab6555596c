"""QR codes as one SVG path, so that the page needs no image and no inline style."""

from dataclasses import dataclass

from qrcode.main import QRCode


@dataclass(frozen=True, kw_only=True)
class QrCode:
    # Modules per side, with the quiet zone.
    size: int
    path: str


def qr_code(text: str) -> QrCode:
    code = QRCode(border=2)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    dark = [f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, is_dark in enumerate(row) if is_dark]
    return QrCode(size=len(rows), path="".join(dark))
