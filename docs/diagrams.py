"""Diagrams of the manual: boxes and arrows, as SVG in the page's own colours."""

from collections.abc import Sequence
from html import escape

INK = "var(--color-foreground-primary, currentColor)"
QUIET = "var(--color-foreground-secondary, currentColor)"
OURS = "#2f81d8"
STYLE = 'style="max-width: 100%; height: auto" font-size="14" xmlns="http://www.w3.org/2000/svg"'
LINE = 19
HEAD = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    f' orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{QUIET}"/></marker></defs>'
)

Box = tuple[float, float, float, float, str, Sequence[str], bool]
"""Left, top, width, height, a head, lines, and whether it is ours."""
Arrow = tuple[float, float, float, float, str, float, float]
"""From, to, what it says and where."""
DIAGRAMS: dict[str, tuple[str, float, float, Sequence[Box], Sequence[Arrow]]] = {
    "cluster": (
        "Pods are grouped to workloads, held against the quotas of projects, and bound to nodes",
        860,
        330,
        [
            (0, 20, 200, 92, "What people write", ("Job, PyTorchJob,", "RayCluster, Deployment, …"), False),
            (
                0,
                200,
                200,
                110,
                "What administrators write",
                ("Department, Project:", "quota, limit, weight,", "namespaces"),
                True,
            ),
            (290, 20, 170, 92, "Pods", ("schedulerName: weir", "made by controllers"), False),
            (
                290,
                200,
                300,
                110,
                "Weir",
                (
                    "pods → Workload: a gang, its project",
                    "shares, order, places, evictions",
                    "every decision with its reason",
                ),
                True,
            ),
            (680, 20, 180, 92, "Nodes", ("kubelets run and", "stop what is bound"), False),
            (
                680,
                200,
                180,
                110,
                "What people read",
                ("kubectl get workloads", "kubectl get projects", "weir why NAME"),
                True,
            ),
        ],
        [
            (200, 66, 284, 66, "", 0, 0),
            (340, 112, 340, 194, "watched", 282, 158),
            (200, 255, 284, 255, "", 0, 0),
            (420, 194, 420, 118, "bound, evicted", 428, 158),
            (460, 66, 674, 66, "run on", 545, 58),
            (590, 255, 674, 255, "", 0, 0),
        ],
    ),
}


def diagram(name: str) -> str:
    """Return a diagram as an element of a page."""
    title, width, height, boxes, arrows = DIAGRAMS[name]
    parts = [f'<svg role="img" viewBox="-2 0 {width + 4} {height}" width="{width}" {STYLE}>']
    parts += [f"<title>{escape(title)}</title>", HEAD]
    for box in boxes:
        parts += _box(box)
    for arrow in arrows:
        parts += _arrow(arrow)
    return "\n".join([*parts, "</svg>"])


def _box(box: Box) -> list[str]:
    left, top, width, height, head, lines, ours = box
    edge = f'stroke="{OURS}" stroke-width="2"' if ours else f'stroke="{QUIET}"'
    inside = f'fill="{OURS}" fill-opacity=".08"' if ours else 'fill="none"'
    parts = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6" {inside} {edge}/>']
    parts.append(_text(left + 14, top + 26, head, INK, 'font-weight="600"'))
    for at, line in enumerate(lines):
        parts.append(_text(left + 14, top + 48 + at * LINE, line, QUIET, 'font-size="13"'))
    return parts


def _arrow(arrow: Arrow) -> list[str]:
    x1, y1, x2, y2, said, left, bottom = arrow
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    parts = [f'<line {ends} stroke="{QUIET}" stroke-width="1.5" marker-end="url(#tip)"/>']
    return [*parts, _text(left, bottom, said, QUIET, 'font-size="12"')] if said else parts


def _text(left: float, bottom: float, said: str, colour: str, more: str = "") -> str:
    return f'<text x="{left}" y="{bottom}" fill="{colour}" {more}>{escape(said)}</text>'
