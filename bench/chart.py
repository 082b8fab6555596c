"""A bar chart as SVG."""

from html import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 800, 34, 300, 110, 46
# Readable on white and on black.
HIGHLIGHT, BAR, INK, INK_ON_BLACK = "#2f6fde", "#8a93a5", "#6b7280", "#a3acba"
STYLE = f'font-family="system-ui, sans-serif" font-size="14" fill="{INK}"'
DARK = f"<style>@media (prefers-color-scheme: dark) {{ svg {{ fill: {INK_ON_BLACK} }} }}</style>"


def bar_chart(title: str, values: dict[str, float], *, highlighted: str) -> str:
    maximum = max(values.values()) or 1.0
    height = TOP + ROW * len(values) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {STYLE}>',
        f"<title>{escape(title)}</title>",
        DARK,
        f'<text x="8" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for index, (name, value) in enumerate(sorted(values.items(), key=lambda item: -item[1])):
        y = TOP + ROW * index
        length = max(2.0, (WIDTH - LEFT - RIGHT) * value / maximum)
        color, weight = (HIGHLIGHT, ' font-weight="600"') if name == highlighted else (BAR, "")
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end"{weight}>{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="24" rx="3" fill="{color}"/>',
            f'<text x="{LEFT + length + 8:.1f}" y="{y + 17}"{weight}>{value:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
