"""Elements of SVG, and the style of all plots."""

from __future__ import annotations

from html import escape

WIDTH = 760

OURS = ("#0b5fd0", "#12a5b5", "#5a3ec8")
"""Blue, teal, violet: only ours. Peers have warm colors and grays."""

PEERS = ("#d9480f", "#c99700", "#a61e4d", "#7a6a58", "#e07b91", "#9aa0a6")

_OURS_DARK = ("#6aa9ff", "#4fd6e0", "#b09cff")
_PEERS_DARK = ("#ff9463", "#ecc24a", "#f06595", "#b9a893", "#f4b6c2", "#c3c8cd")


def color_class(place: int, *, is_ours: bool) -> str:
    """Return the class of the series at that place among ours, or among the peers."""
    return f"o{place % len(OURS)}" if is_ours else f"p{place % len(PEERS)}"


def _colors(ours: tuple[str, ...], peers: tuple[str, ...]) -> str:
    named = {f"o{n}": color for n, color in enumerate(ours)} | {f"p{n}": each for n, each in enumerate(peers)}
    return "".join(f".{name}{{fill:{color};stroke:{color}}}" for name, color in named.items())


_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328;stroke:none}.t{font-size:15px;font-weight:600}"
    ".n{font-size:12px}.b{fill:#ffffff;stroke:#d0d7de}.g{stroke:#d8dee4;fill:none}.a{stroke:#57606a;fill:none}"
    ".l{fill:none;stroke-width:2.2}" + _colors(OURS, PEERS) + "@media (prefers-color-scheme:dark){"
    "text{fill:#e6edf3}.b{fill:#0d1117;stroke:#30363d}.g{stroke:#30363d}.a{stroke:#8b949e}"
    + _colors(_OURS_DARK, _PEERS_DARK)
    + "}.l{fill:none}"
)


def document(height: float, title: str, about: str, parts: list[str]) -> str:
    """Return a whole picture, with its own ground, a title, and a description for screen readers."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
            f'height="{height:g}" role="img" aria-labelledby="title about">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="about">{escape(about)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="b" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="6"/>',
            text(20, 28, title, "t"),
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, what: str, kind: str = "", anchor: str = "start", turned: bool = False) -> str:
    named = f' class="{kind}"' if kind else ""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named} text-anchor="{anchor}"{turn}>{escape(what)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"/>'
    )


def path(points: list[tuple[float, float]], kind: str, *, dashed: bool) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<polyline class="{kind} l"{dashes} points="{places}"/>'


def mark(x: float, y: float, kind: str, *, is_ours: bool) -> str:
    """Return a disc for ours and a square for a peer: the shape says it without the color."""
    if is_ours:
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/>'
    return f'<rect class="{kind}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
