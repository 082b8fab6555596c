"""A picture of the comparison: pairs per second at 64 connections, drawn as SVG without any library."""

from html import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 800, 34, 300, 110, 46
# Readable on white and on black; the ink still better where the browser says which it is.
OURS, OTHERS, INK, INK_ON_BLACK = "#2f6fde", "#8a93a5", "#6b7280", "#a3acba"
STYLE = f'font-family="system-ui, sans-serif" font-size="14" fill="{INK}"'
DARK = f"<style>@media (prefers-color-scheme: dark) {{ svg {{ fill: {INK_ON_BLACK} }} }}</style>"


def bars(title: str, values: dict[str, float], *, ours: str) -> str:
    most = max(values.values()) or 1.0
    height = TOP + ROW * len(values) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {STYLE}>',
        f"<title>{escape(title)}</title>",
        DARK,
        f'<text x="8" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for place, (name, value) in enumerate(sorted(values.items(), key=lambda item: -item[1])):
        y = TOP + ROW * place
        length = max(2.0, (WIDTH - LEFT - RIGHT) * value / most)
        own = name == ours
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end"{_bold(own)}>{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="24" rx="3" fill="{OURS if own else OTHERS}"/>',
            f'<text x="{LEFT + length + 8:.1f}" y="{y + 17}"{_bold(own)}>{value:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def _bold(own: bool) -> str:
    return ' font-weight="600"' if own else ""
