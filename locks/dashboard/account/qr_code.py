"""QR codes as one path of an SVG, drawn by the template: no image to load, no style to allow."""

from dataclasses import dataclass

from qrcode.main import QRCode


@dataclass(frozen=True, kw_only=True)
class Picture:
    # Squares in a row, the quiet zone around them included.
    size: int
    path: str


def qr_code(text: str) -> Picture:
    code = QRCode(border=2)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    dark = [f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, is_dark in enumerate(row) if is_dark]
    return Picture(size=len(rows), path="".join(dark))
