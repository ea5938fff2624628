"""Random scenario documents that are right, as plain values, for properties over what people write."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.text(st.sampled_from("abcXYZ019-._ :#é'\"&*!%@~,{}😀"), min_size=1, max_size=12).filter(
    lambda name: name == name.strip()
)
LABELS = st.dictionaries(NAMES, st.text(max_size=8).filter(lambda text: text.isprintable()), max_size=2)
TRICKY = st.sampled_from(
    ["no", "1", "1e5", "0o17", "0x1F", "null", "~", "true", "-", ".5", "1:30", "2026-01-01", "="]
)
WORDS = NAMES | TRICKY
BYTES = st.integers(1, 1 << 41) | st.sampled_from(["1Gi", "500Mi", "2G", "1e9", "0.5Ti"])
CPU = st.integers(0, 512) | st.sampled_from(["500m", "1.5", 0.25])
PAST = st.integers(0, 10**6).map(lambda ago_s: -ago_s) | st.sampled_from(
    ["-5m", "-1h30m", "0s", "-2.5s", -0.125]
)
BOUNDS = st.integers(0, 10**6) | st.sampled_from(["unlimited", "2000m", 3.0])
WEIGHTS = st.integers(0, 100) | st.sampled_from([0.5, 0.1])
RESOURCES = st.sampled_from(["gpu", "cpu", "memory", "pods", "gpu.H100", "rdma/hca"])
PRIORITIES = st.integers(-1000, 1000)
TERMS = st.sampled_from(["2h", 90, 0.5, 0])
TIMES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("max_runtime", "idle_limit", "lifetime", "stop_grace"), TERMS)
)
WHYS = st.sampled_from(["over_limit", "insufficient_capacity", "gang_incomplete"])
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])


EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": WORDS,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(WORDS, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": WORDS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {"key": WORDS, "operator": st.sampled_from(["Gt", "Lt"]), "values": st.just(["8"])}
    ),
)
TERMS_OF_NODES = st.lists(st.lists(EXPRESSIONS, min_size=1, max_size=2), min_size=1, max_size=2)
POD_RULES = st.lists(
    st.fixed_dictionaries({"mark": WORDS, "topology": WORDS}, optional={"weight": st.integers(1, 100)}),
    max_size=2,
)
ONE_OF_BOTH: dict[str, st.SearchStrategy[Any]] = {
    "weight": st.integers(1, 100),
    "min_domains": st.integers(2, 9),
}


def unique(names: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[str]]:
    """Different names."""
    return st.lists(names, max_size=most, unique=True)


def optional(draw: Any, values: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    """Some of these keys."""
    return {key: draw(value) for key, value in values.items() if draw(st.booleans())}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A scenario that has nothing wrong with it."""
    nodes = [_node(draw, name) for name in draw(unique(WORDS, 3))]
    levels = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
    queues = draw(unique(WORDS, 6))
    cut = draw(st.integers(0, max(0, len(queues) - 1)))
    departments, projects = queues[:cut], queues[cut:]
    document: dict[str, Any] = {
        "cluster": {"nodes": nodes, "topologies": [{"name": "net", "levels": levels}]}
    }
    document["departments"] = [
        {**_queue(draw, name), **_above(draw, "parent", departments[:index])}
        for index, name in enumerate(departments)
    ]
    draw(st.randoms()).shuffle(document["departments"])
    document["projects"] = [
        {**_queue(draw, name), **_above(draw, "department", departments), **optional(draw, {"times": TIMES})}
        for name in projects
    ]
    free = {
        node["name"]: [device for device in range(node["gpus"]) if device not in node["foreign_devices"]]
        for node in nodes
    }
    names = draw(unique(WORDS, 4)) if projects else []
    document["workloads"] = [_workload(draw, name, projects, levels, free) for name in names]
    document |= optional(draw, {"name": WORDS, "tick": st.sampled_from(["1s", 5, 0.5]), "policy": policies()})
    document["expect"] = _expect(draw, document["workloads"], list(free))
    return document


def _above(draw: st.DrawFn, key: str, departments: list[str]) -> dict[str, str]:
    return {key: draw(st.sampled_from(departments))} if departments and draw(st.booleans()) else {}


def _node(draw: st.DrawFn, name: str) -> dict[str, Any]:
    gpus = draw(st.integers(0, 8))
    node: dict[str, Any] = {"name": name, "gpus": gpus, "cpu": 1000, "memory": "100Ti", "pods": 1000}
    taint = st.fixed_dictionaries({"key": WORDS}, optional={"value": WORDS, "effect": EFFECTS})
    link = st.lists(st.integers(0, max(0, gpus - 1)), unique=True, max_size=gpus)
    node["foreign_devices"] = draw(st.lists(st.integers(0, gpus - 1), unique=True)) if gpus else []
    return node | optional(
        draw,
        {
            "gpu_model": st.sampled_from(["A100", "H100"]),
            "gpu_memory": BYTES,
            "labels": LABELS,
            "taints": st.lists(taint, max_size=2),
            "resources": st.dictionaries(WORDS.filter(lambda key: key != "="), st.integers(0, 8), max_size=2),
            "links": st.lists(link, max_size=2),
            "foreign_marks": st.dictionaries(WORDS, st.integers(0, 9), max_size=2),
        },
    )


def _queue(draw: st.DrawFn, name: str) -> dict[str, Any]:
    quota = draw(st.dictionaries(RESOURCES, BOUNDS, max_size=3))
    limit = dict.fromkeys(draw(st.sets(RESOURCES, max_size=2)), 10**9)
    queue = {"name": name, "quota": quota, "limit": limit}
    return queue | optional(
        draw,
        {
            "weight": st.dictionaries(RESOURCES, WEIGHTS, max_size=2),
            "priority": PRIORITIES,
            "created": PAST | st.integers(0, 1000),
        },
    )


def _workload(
    draw: st.DrawFn, name: str, projects: list[str], levels: list[str], free: dict[str, list[int]]
) -> dict[str, Any]:
    groups = [_group(draw, free) for _ in range(draw(st.integers(1, 3)))]
    for group, own in zip(
        groups, draw(unique(WORDS.filter(lambda word: not word.isdigit()), 3)), strict=False
    ):
        group["name"] = own
    workload: dict[str, Any] = {"name": name, "project": draw(st.sampled_from(projects)), "pods": groups}
    workload |= optional(
        draw,
        {
            "type": st.sampled_from(["train", "build", "inference"]),
            "priority": PRIORITIES,
            "preemptible": st.booleans(),
            "can_preempt": st.booleans(),
            "submitted": PAST,
            "max_runtime": st.sampled_from(["2h", 90, 0.5]),
            "idle_limit": st.sampled_from(["2h", 90, 0.5]),
            "grace": TERMS,
            "retries": st.integers(0, 100),
            "checkpointed": PAST,
            "topology": st.fixed_dictionaries(
                {"name": st.just("net"), "required": st.sampled_from(levels)},
                optional={"preferred": st.sampled_from(levels)},
            ),
        },
    )
    counts = [group.get("count", 1) for group in groups]
    least = sum(group.get("min", count) for group, count in zip(groups, counts, strict=True))
    if draw(st.booleans()):
        workload["min_pods"] = draw(st.integers(least, sum(counts)))
    if any(place for group in groups for place in group["placed"]) and draw(st.booleans()):
        workload["started"] = "0s"
    return workload


def _group(draw: st.DrawFn, free: dict[str, list[int]]) -> dict[str, Any]:
    count = draw(st.integers(1, 4))
    group: dict[str, Any] = {"count": count, "cpu": draw(st.sampled_from([1, "500m", 0])), "placed": []}
    kind = draw(st.sampled_from(["none", "whole", "share", "memory"]))
    devices = draw(st.integers(1, 2))
    if kind == "whole":
        group["gpus"] = devices
    elif kind != "none":
        group |= {"gpus": 0.25} if kind == "share" else {"gpu_memory": 1}
        group["devices"] = devices
    for node, left in free.items():
        if len(group["placed"]) == count or not draw(st.booleans()):
            continue
        group["placed"] += [None] * draw(st.integers(0, count - len(group["placed"]) - 1))
        if kind == "none":
            group["placed"].append({"node": node})
        elif len(left) >= devices:
            group["placed"].append({"node": node, "gpus": [left.pop() for _ in range(devices)]})
    toleration = st.fixed_dictionaries({"key": WORDS}, optional={"value": WORDS, "effect": EFFECTS})
    wishes: dict[str, st.SearchStrategy[Any]] = {
        "min": st.integers(0, count),
        "memory": st.sampled_from(["1Gi", 1000, "0.5Gi"]),
        "assumed_cpu": st.sampled_from([2, "500m"]),
        "assumed_memory": st.sampled_from(["1Gi", 1000]),
        "node_selector": LABELS,
        "tolerations": st.lists(toleration | st.just({"operator": "Exists"}), max_size=2),
        "order": PRIORITIES,
        "node_affinity": TERMS_OF_NODES,
        "preferred_nodes": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "terms": TERMS_OF_NODES}), max_size=2
        ),
        "marks": unique(WORDS, 2),
        "pod_affinity": POD_RULES,
        "pod_anti_affinity": POD_RULES,
        "spread": st.lists(
            st.fixed_dictionaries(
                {"mark": WORDS, "topology": WORDS}, optional={"max_skew": st.integers(1, 9), **ONE_OF_BOTH}
            ).filter(lambda rule: not ONE_OF_BOTH.keys() <= rule.keys()),
            max_size=2,
        ),
    }
    if free:
        wishes["nodes"] = st.lists(st.sampled_from(list(free)), min_size=1, max_size=3)
    return group | optional(draw, wishes)


def _expect(draw: st.DrawFn, workloads: list[dict[str, Any]], nodes: list[str]) -> dict[str, Any]:
    wishes: dict[str, st.SearchStrategy[Any]] = {
        "status": st.sampled_from(["running", "pending", "waiting"]),
        "reason": WHYS,
    }
    if nodes:
        wishes["node"] = st.sampled_from(nodes)
    expect = optional(
        draw, {"cycles": st.integers(1, 9), "stable": st.integers(0, 9), "max_evictions": st.integers(0, 9)}
    )
    expect["workloads"] = {
        workload["name"]: optional(draw, wishes) for workload in workloads if draw(st.booleans())
    }
    expect["pods"] = {
        f"{workload['name']}/{workload['pods'][0].get('name', '0')}/0": optional(draw, wishes)
        for workload in workloads
        if draw(st.booleans())
    }
    return expect


def policies() -> st.SearchStrategy[dict[str, Any]]:
    """Policies that have nothing wrong with them."""
    pool = st.fixed_dictionaries({"name": WORDS, "node_labels": LABELS, "placement": st.just("spread")})
    affinity = st.fixed_dictionaries({"node_labels": LABELS}, optional={"required": st.booleans()})
    return st.fixed_dictionaries(
        {},
        optional={
            "preset": st.sampled_from(["fair", "balanced", "throughput"]),
            "placement": st.sampled_from(["pack", "spread"]),
            "reserve_fraction": st.floats(0, 1),
            "swap_at_checkpoint": st.booleans(),
            "reserve_after": st.sampled_from(["1h", 90, 0]),
            "min_runtime": st.fixed_dictionaries({}, optional={"train": st.just("5m"), "build": st.just(0)}),
            "topology": st.fixed_dictionaries(
                {}, optional={"patience": st.just("0s"), "budget": st.floats(0, 9e9)}
            ),
            "node_pools": st.lists(pool, max_size=2),
            "affinity": st.lists(affinity, max_size=2),
            "search_steps": st.integers(1, 9999),
        },
    )
