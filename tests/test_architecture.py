"""Rules of the architecture that no tool checks: what the core may import, what is pinned, what CI runs."""

import ast
import builtins
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from tools.compiled import COMPILED, PLAIN

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "weir"
PURE = ("engine", "state")
HTTP = {"aiohttp", "httptools", "wsproto"}
KNOWS_THE_WORLD = {
    *("asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "random"),
    *("secrets", "signal", "socket", "subprocess", "tempfile", "threading", "time", "uuid"),
}
ALLOWED = (set(sys.stdlib_module_names) - KNOWS_THE_WORLD) | {"numpy"}


@cache
def syntax_trees() -> dict[Path, ast.Module]:
    """Return the syntax trees of all modules, parsed once."""
    return {file: ast.parse(file.read_text()) for file in sorted(SOURCE.rglob("*.py"))}


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Return the modules that a module imports, in functions included."""
    found = []
    for node in ast.walk(syntax_trees()[file]):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.append(node.module or "")
    return tuple(found)


@pytest.mark.parametrize("package", PURE)
def test_the_core_needs_its_nouns_and_numpy(package: str) -> None:
    below = {
        "engine": ("weir.model", "weir.state", "weir.engine"),
        "state": ("weir.model", "weir.state"),
    }
    for file in (SOURCE / package).rglob("*.py"):
        for module in imports(file):
            own = module.startswith(below[package])
            assert own or module.split(".")[0] in ALLOWED, f"{file.name} imports {module}"


def test_compiled_modules_cache_no_property() -> None:
    """The compiler takes a cached property for a plain one, which is computed at each use."""
    for pattern in ("state/**/*.py", "engine/**/*.py", "control/*.py", "simulation/*.py"):
        for file in SOURCE.glob(pattern):
            assert "cached_property" not in file.read_text(), file.name


def test_pins_name_versions_and_hashes_and_nothing_else() -> None:
    text = (ROOT / "constraints.txt").read_text().replace(" \\\n", "\n")
    pin = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; [a-zA-Z0-9_.<>=!' ]+)?")
    pinned: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith(" "):
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line)
            pinned[-1].append(line)
        else:
            assert pin.fullmatch(line), line
            pinned.append([])
    assert len(pinned) > 10
    assert all(pinned), "every package has a hash"


def test_the_entry_of_ci_can_be_run() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_one_module_talks_to_the_api_server() -> None:
    speak = {
        file.name
        for file in SOURCE.rglob("*.py")
        if any(name.partition(".")[0] in HTTP for name in imports(file))
    }
    # Only the first two send requests: the others serve webhooks, reports, the aggregated API and the dashboard.
    serve = {
        *("webhook_server.py", "connection_limit.py", "routes.py", "page_server.py", "page_process.py"),
        *("log_answer.py", "preview_routes.py"),
        *(
            "node_report_route.py",
            "route.py",
            "http_exchange.py",
            "oidc_routes.py",
            "http_runner.py",
        ),
    }
    assert speak == {"http_connection.py", "web_socket.py", *serve}
    used = {"connection_pool": {"client.py"}, "http_connection": {"connection_pool.py", "client.py"}}
    for name, by in used.items():
        module = f"weir.kubernetes.api.{name}"
        assert {file.name for file in SOURCE.rglob("*.py") if module in imports(file)} == by


FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
CLASS_LINES_MAX = 150


def package_of(file: Path) -> str:
    """Return the subpackage of weir that a file belongs to."""
    parts = file.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "weir"


def duplicate_class_names(trees: dict[Path, ast.Module]) -> Counter[str]:
    """Count class names that are defined more than once, by the packages that define them."""
    found: dict[str, list[Path]] = {}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(file)
    return Counter(package_of(file) for files in found.values() if len(files) > 1 for file in files)


def long_files(trees: dict[Path, ast.Module]) -> Counter[str]:
    """Count files over the limit of lines."""
    return Counter(package_of(file) for file in trees if file.read_text().count("\n") > FILE_LINES_MAX)


def long_functions(trees: dict[Path, ast.Module]) -> Counter[str]:
    """Count functions over the limit of lines."""
    return Counter(
        package_of(file)
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    )


def long_core_classes(trees: dict[Path, ast.Module]) -> Counter[str]:
    """Count classes of the core over the limit of lines."""
    return Counter(
        f"{package_of(file)}: {node.name}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if package_of(file) in PURE and isinstance(node, ast.ClassDef)
        if (node.end_lineno or node.lineno) - node.lineno + 1 > CLASS_LINES_MAX
    )


def import_cycles(trees: dict[Path, ast.Module]) -> Counter[str]:
    """Count modules that import themselves through others, in functions and for type checks included."""
    graph = import_graph()
    return Counter(package_of(file) for file in trees if module_name(file) in reach(graph, module_name(file)))


@cache
def import_graph() -> dict[str, set[str]]:
    """Return the modules that each module imports directly, in functions and for type checks included."""
    name_of = {file: module_name(file) for file in syntax_trees()}
    graph: dict[str, set[str]] = {name: set() for name in name_of.values()}
    for file, tree in syntax_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                submodules = {f"{node.module}.{alias.name}" for alias in node.names} & graph.keys()
                targets = submodules or {node.module}
                graph[name_of[file]] |= targets & graph.keys() - {name_of[file]}
    return graph


def module_name(file: Path) -> str:
    """Return the dotted name of a module."""
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    found: set[str] = set()
    pending = list(graph[start])
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += graph[name]
    return found


COUNTS: dict[str, Callable[[dict[Path, ast.Module]], Counter[str]]] = {
    "duplicate class names": duplicate_class_names,
    "import cycles": import_cycles,
    f"files over {FILE_LINES_MAX} lines": long_files,
    f"functions over {FUNCTION_LINES_MAX} lines": long_functions,
    f"classes of the core over {CLASS_LINES_MAX} lines": long_core_classes,
}


def test_dataclasses_of_the_compiled_engine_can_be_imported() -> None:
    """mypyc leaves `object` out of what it resolves the fields of a dataclass with: its import fails."""
    source = ROOT / "src"
    files = {file for pattern in COMPILED for file in source.glob(pattern)}
    files -= {source / name for name in PLAIN}
    found = {
        f"{file.relative_to(ROOT)}: {node.name}.{ast.unparse(field.target)}"
        for file, tree in syntax_trees().items()
        for node in ast.walk(tree)
        if file in files and isinstance(node, ast.ClassDef)
        if any("dataclass" in ast.unparse(each) for each in node.decorator_list)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation) == "object"
    }
    assert not found, "write a plain class, or name a type"


def test_docstrings_name_exceptions_that_their_module_can_raise() -> None:
    """A name that was changed in the code alone, or that belongs to another package, leads a reader astray."""
    raised = re.compile(r"^ *Raises:\n((?: +.*\n?)+)", re.MULTILINE)
    trees = syntax_trees()
    known = {module_name(file): names_of(tree) for file, tree in trees.items()}
    wrong = []
    for file, tree in trees.items():
        text = "".join(
            "".join(raised.findall(ast.get_docstring(node) or ""))
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        module = module_name(file)
        missing = set(re.findall(r"^ +([A-Z]\w+):", text, re.MULTILINE)) - known[module] - set(dir(builtins))
        if missing:
            missing = missing.difference(*(known[each] for each in reach(import_graph(), module)))
        wrong += [f"{module}: {name}" for name in sorted(missing)]
    assert not wrong


def names_of(tree: ast.Module) -> set[str]:
    """Return the classes of a module and the names that it imports."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return own | {alias.asname or alias.name for alias in imported_names(tree)}


def imported_names(tree: ast.Module) -> Iterator[ast.alias]:
    """Yield the names that a module imports from others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from node.names


@pytest.mark.parametrize("name", ["constraints.txt", "web/package-lock.json"])
def test_pinned_versions_come_without_addresses(name: str) -> None:
    assert "://" not in (ROOT / name).read_text(), "remove what npm adds: `resolved` and `funding`"


def test_tests_tools_and_benchmarks_keep_the_limit_of_lines() -> None:
    files = [file for folder in ("tests", "tools", "bench") for file in (ROOT / folder).rglob("*.py")]
    found = {str(file.relative_to(ROOT)) for file in files if file.read_text().count("\n") > FILE_LINES_MAX}
    assert not found, "split them by subject"


@pytest.mark.parametrize("kind", COUNTS)
def test_each_package_keeps_each_rule_without_exception(kind: str) -> None:
    found = {name: count for name, count in COUNTS[kind](syntax_trees()).items() if count}
    assert not found, kind


WORKLOAD_CLASSES = {
    "model": (
        "Workload",
        "PodGroup",
        "WorkloadPast",
        "Expectation",
        "PodResult",
    ),
    "scenario_io": (
        *("WorkloadEntry", "PodsEntry", "GroupEntry", "InitialPod"),
        *("WorkloadExpectedEntry", "PodExpectedEntry"),
    ),
    "state": ("Job", "Pod"),
    "control": ("WorkloadRecord", "WorkloadProgress", "LifecycleState"),
    "api": ("Submission", "WorkloadRow", "WorkloadDetail", "PodRow"),
    "client": ("SubmissionFields",),
    "store": ("StoredWorkload", "MeteredWorkload", "WorkloadUsageSample"),
    "local": (*("LocalWorkload", "RunningPod", "StartRecord", "WorkloadView"),),
    "simulation": ("JobTrace", "JobProgress", "JobRecord", "SimulatedPod"),
    "kubernetes": (
        *("KubePod", "PodSpec", "PodStatus", "WorkloadObject", "WorkloadSpec", "WorkloadStatus"),
        *("AllocationStatus", "Gang", "PodGroupSlots", "TrackedPod", "PodAllocation", "PodUsage"),
        *("PodInfo", "PodRequest", "DerivedWorkload"),
    ),
}
"""Classes that describe a workload or a pod of it. The aim is 20: merge classes, and never add one."""
WORKLOAD_CLASSES_MAX = 47
OTHER_CLASSES = {
    *("EndWorkload", "StartPod", "StopPod", "UpsertWorkload", "NoSuchWorkload"),  # orders and errors
    *("_KeptPod", "_OfPod", "_SelectedPod"),  # parts of Kubernetes
    *("DemoJob", "PendingJob", "RunningJob"),  # of the demo's pictures
}
DESCRIBES = re.compile(
    r"_?\w*(Workload|Pod|Job|Gang)"
    r"(Row|Record|View|Spec|Status|Entry|Object|Detail|Info|Request|Result|Expected|State|Snapshot)?"
)


def test_no_further_class_describes_a_workload() -> None:
    listed = {(package, name) for package, names in WORKLOAD_CLASSES.items() for name in names}
    assert len(listed) <= WORKLOAD_CLASSES_MAX
    found = {
        (package_of(file), node.name): sum(isinstance(part, ast.AnnAssign) for part in node.body)
        for file, tree in syntax_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert listed <= found.keys(), "take classes that are gone out of the list"
    further = {
        f"{package}: {name}"
        for (package, name), fields in found.items()
        if fields >= 2 and DESCRIBES.fullmatch(name) and name not in OTHER_CLASSES
    }
    assert not further - {f"{package}: {name}" for package, name in listed}


def test_the_page_about_the_code_names_modules_that_exist() -> None:
    page = (ROOT / "docs" / "explanation" / "reading.md").read_text("utf-8")
    _, questions, after = page.partition("## Where is it decided?")
    named = re.findall(r"`(\w+(?:/\w+)*\.py)`", questions + after.partition("## Tests")[0])
    missing = [name for name in named if not (SOURCE / name).is_file()]
    assert len(named) > 20
    assert not missing
