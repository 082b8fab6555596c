"""Tree: locks of a namespace of paths as folders."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.tree.queries import tree as build_tree
from locks.dashboard.tree.queries import tree_namespaces

MAX_OPEN = 100


@require_safe
@space_required
def tree(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    namespaces = tree_namespaces(space_context.space)
    asked = request.GET.get("namespace", "")
    namespace = asked if asked in namespaces else next(iter(namespaces), None)
    opened = tuple(dict.fromkeys(request.GET.getlist("open")))[:MAX_OPEN]
    built = build_tree(space=space_context.space, namespace=namespace, opened=opened) if namespace else None
    rows = [
        (folder, tuple(name for name in opened if name != folder.name) if folder.is_open else (*opened, folder.name))
        for folder in (built.folders if built else [])
    ]
    context = {"namespaces": namespaces, "tree": built, "rows": rows}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "tree/folders.html", context)
    return page(request, space_context, "tree/page.html", context, active_page="now")
