"""Mistakes of a file are reported all at once: the line, the mistake and the correction."""

import pytest
from tests.unit.scenario_io.mistakes import reported

GROUND = """\
cluster:
  nodes:
    - {name: node0, gpus: 2, cpu: 4, memory: 8Gi, pods: 3, gpu_memory: 10Gi, gpu_model: A100}
    - {name: node1}
  topologies:
    - {name: net, levels: [block, rack]}
departments:
  - {name: research}
projects:
  - {name: vision, department: research, quota: {gpu: 4}}
workloads:
"""
FIRST = GROUND.count("\n") + 1


def told_of_group(group: str) -> list[str]:
    """The mistakes of a pod group on the first line after the ground, without the line."""
    mistakes = reported(f"{GROUND}  - {{name: w, project: vision, pods: [{{{group}}}]}}\n")
    assert all(mistake.startswith(f"{FIRST}: ") for mistake in mistakes)
    return [mistake.removeprefix(f"{FIRST}: ") for mistake in mistakes]


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    text = """\
name: lab
cluster:
  nodes:
    - name: a
      gpus: -1
      gpu: 2
    - name: a
departments:
  - {name: d, limit: {gpu: 2}, quota: {gpu: 4}}
projects:
  - name: p
    department: b
  - {name: d, weight: {gpus: 1}}
workloads:
  - name: w
    project: q
    type: trian
    pods:
      - placed: [{node: c}]
expect:
  workloads: {v: {status: running}}
tik: 5s
"""
    assert reported(text) == [
        "5: gpus: -1 is negative; write 0 or more",
        "6: unknown key gpu; did you mean gpus?",
        "7: node a is there already, on line 4; write another name",
        "9: limit.gpu: 2 is below the quota of 4; write 4 or more, or lower the quota",
        "12: there is no department b; write one of d",
        "13: project d is there already, on line 9; write another name",
        "13: weight: nothing has a resource gpus; did you mean gpu?",
        "16: there is no project q; write one of p, d",
        "17: type: 'trian' isn't known; write train, build or inference",
        "19: there is no node c; write one of a",
        "21: there is no workload v; write one of w",
        "22: unknown key tik; did you mean tick?",
    ]


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        (
            "gpus: 1.5",
            "gpus: 1.5 is neither whole devices nor a share of one; write 1 or 2, or a share below 1",
        ),
        ("gpus: 0.3333", "gpus: 0.3333 is finer than 0.001, the smallest share of a device; write 0.333"),
        ("cpu: 100u", "cpu: '100u' is finer than 0.001, the smallest share of a core; write 0.001"),
        ("memory: 1.5", "memory: 1.5 is not a whole number of bytes; write 2, or a unit, such as 1.5Gi"),
        ("gpu_memory: 0.5", "gpu_memory: 0.5 is not a whole number of bytes; write 1, or a unit, such as"),
        ("resources: {nic: 1.5}", "resources.nic: 1.5 is not a whole number; write 2"),
        ("gpus: many", "gpus: 'many' is not a quantity; write a number or one such as 500m, 1.5 or 40Gi"),
        ("cpu: -500m", "cpu: '-500m' is negative; write 0 or more"),
        ("memory: .nan", "memory: is not a finite number; write"),
        ("memory: 1e99", "memory: 1e+99 is more than can be counted; write less"),
        ("memory: unlimited", "memory: is unlimited, which only quota and limit can be; write an amount"),
        ("count: '2'", "count: '2' is not a whole number; write one such as 4"),
        ("count: 0", "count: 0 is too small; write 1 or more"),
        ("name: 1", 'name: 1 is no text; put it in quotes: "1"'),
        ("name: a/b", "name: 'a/b' has a slash, which parts workload/group/index; write a name without it"),
        ("min: 2", "min: 2 is more than the count of 1; write at most 1"),
        ("gpus: 0.5, gpu_memory: 1Gi", "gpus and gpu_memory are both written"),
        ("gpus: 2, devices: 2", "devices goes with a share below 1 or with gpu_memory; leave it out"),
        ("nodes: []", "nodes: is an empty list; write at least one entry, or leave the key out"),
        ("nodes: [node2]", "there is no node node2; did you mean node1?"),
        ("resources: {gpu: 1}", "resources.gpu: gpu has a key of its own; write gpus outside of resources"),
        (
            "tolerations: [{}]",
            "a toleration names no key; add key, or operator: Exists to tolerate everything",
        ),
        (
            "node_affinity: [[{key: zone, operator: In}]]",
            "In needs values; add values: the allowed values of the label",
        ),
        (
            "node_affinity: [[{key: zone, operator: Exists, values: [a]}]]",
            "values: Exists asks for none; leave them out, or write operator: In",
        ),
        (
            "preferred_nodes: [{weight: 1, terms: [[{key: cores, operator: Gt, values: [many]}]]}]",
            'Gt compares with one whole number; write values with one, such as ["8"]',
        ),
        ("node_affinity: []", "node_affinity: is an empty list; write at least one entry"),
        ("marks: [a, a]", "marks: a is named twice; name it once"),
        (
            "spread: [{mark: a, topology: zone, min_domains: 2, weight: 5}]",
            "min_domains goes with a spread that must hold; leave it out, or leave out weight",
        ),
        ("pod_affinity: [{mark: a}]", "topology is missing in pod_affinity[0]; add topology"),
        ("pod_affinity: [{mark: a, topology: zone, weight: 0}]", "weight: 0 is too small; write 1 or more"),
        ("placed: [null, null]", "placed: lists 2 pods of 1; write at most 1, or raise count"),
        ("placed: node0", "placed: 'node0' is not a list; write [...], or one entry a line after a dash"),
        ("placed: [{nod: node0}]", "unknown key nod; did you mean node?"),
        ("colour: red", "unknown key colour; write one of name, count, min, gpus,"),
    ],
)
def test_a_pod_group_that_is_wrong(written: str, answer: str) -> None:
    assert any(mistake.startswith(answer) for mistake in told_of_group(written)), told_of_group(written)


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("gpus: 1, placed: [{node: node0, gpus: [2]}]", "gpus: node0 has no device 2; write 0 to 1"),
        (
            "gpus: 1, placed: [{node: node1, gpus: [0]}]",
            "gpus: node1 has no device 0; place it on a node with gpus",
        ),
        (
            "gpus: 1, placed: [{node: node0, gpus: [0, 1]}]",
            "gpus: names 2 devices, its pod asks for 1; name 1",
        ),
        (
            "gpus: 2, placed: [{node: node0, gpus: [0, 0]}]",
            "gpus: device 0 is named twice; name 2 different ones",
        ),
        ("placed: [{node: node0, gpus: [0]}]", "gpus: w/0/0 asks for no device; leave gpus out"),
        (
            "gpus: 0.5, placed: [{node: node0}]",
            "gpus is missing for w/0/0, which shares devices; add gpus with 1 device index",
        ),
        (
            "gpus: 1, gpu_models: [H100], placed: [{node: node0}]",
            "w/0/0 asks for H100, node0 has A100; place it",
        ),
        (
            "gpu_memory: 11Gi, placed: [{node: node0, gpus: [0]}]",
            "gpus: w/0/0 can't be on device 0 of node0: it needs 1.1 of it, 1 is left",
        ),
        (
            "count: 2, gpus: 1, placed: [{node: node0, gpus: [0]}, {node: node0, gpus: [0]}]",
            "gpus: w/0/1 can't be on device 0 of node0: w/0/0 is on it and has the whole of it;",
        ),
        (
            "count: 2, gpus: 0.6, placed: [{node: node0, gpus: [1]}, {node: node0, gpus: [1]}]",
            "gpus: w/0/1 can't be on device 1 of node0: it needs 0.6 of it, 0.4 is left; name another device",
        ),
        (
            "count: 3, gpus: 1, placed: [{node: node0}, {node: node0}, {node: node0}]",
            "w/0/2 can't run on node0: it needs 1 free device, 0 left; place it elsewhere",
        ),
        (
            "cpu: 5, placed: [{node: node0}]",
            "w/0/0 can't run on node0: it needs 5 cpu, 4 is left; place it elsewhere",
        ),
        (
            "memory: 9Gi, placed: [{node: node0}]",
            "w/0/0 can't run on node0: it needs 9Gi memory, 8Gi is left",
        ),
        (
            "resources: {nic: 1}, placed: [{node: node0}]",
            "w/0/0 can't run on node0: it needs 1 nic, 0 is left",
        ),
        (
            "count: 4, cpu: 0, placed: [{node: node0}, {node: node0}, {node: node0}, {node: node0}]",
            "w/0/3 can't run on node0: it needs 1 pods, 0 is left",
        ),
    ],
)
def test_a_pod_that_cannot_be_where_it_is(written: str, answer: str) -> None:
    mistakes = told_of_group(written)
    assert len(mistakes) == 1
    assert mistakes[0].startswith(answer)


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("min_pods: 5", "min_pods: 5 is more than its 3 pods; write at most 3"),
        ("min_pods: 1", "min_pods: 1 is below the 2 its groups need; write 2 or more, or lower min"),
        (
            "submitted: 5m",
            "submitted: '5m' lies ahead of the scenario's instant; write 0s or an offset such as -10m",
        ),
        ("submitted: soon", "submitted: 'soon' is not a duration; write one such as 90s, 10m or 2h30m"),
        ("started: -5m", "started: none of its pods is placed; leave it out, or add placed"),
        ("max_runtime: 0s", "max_runtime: '0s' is not above 0; write a duration such as 90s, 10m or 2h30m"),
        ("preemptible: yes", "preemptible: 'yes' is neither true nor false; write true or false"),
        (
            "priority: hihg",
            "priority: 'hihg' is no priority; write a number, or one of low, normal, high, urgent",
        ),
        ("topology: {name: net}", "topology names no level; add required or preferred, or leave it out"),
        ("topology: {name: nett, required: rack}", "there is no topology nett; did you mean net?"),
        (
            "topology: {name: net, required: racks}",
            "required: topology net has no level racks; did you mean rack?",
        ),
    ],
)
def test_a_workload_that_is_wrong(written: str, answer: str) -> None:
    mistakes = reported(
        f"{GROUND}  - name: w\n    project: vision\n    pods: [{{count: 3, min: 2}}]\n    {written}\n"
    )
    assert mistakes == [f"{FIRST + 3}: {answer}"]


def test_amounts_of_queues_that_are_finer_than_their_unit() -> None:
    text = """\
cluster: {nodes: [{name: a, gpus: 2}]}
departments:
  - {name: d, quota: {gpu.H100: 0.0001}}
projects:
  - name: p
    quota: {gpu: 0.0001, memory: 1.5, cpu: many}
    limit: {cpu: 100u}
    person_limits: {gpus: 0.0001}
"""
    share = "is finer than 0.001, the smallest share of a"
    assert reported(text) == [
        f"3: quota.gpu.H100: 0.0001 {share} device; write 0.001",
        f"6: quota.gpu: 0.0001 {share} device; write 0.001",
        "6: quota.memory: 1.5 is not a whole number of bytes; write 2, or a unit, such as 1.5Gi",
        "6: quota.cpu: 'many' is not a quantity; write a number or one such as 500m, 1.5 or 40Gi",
        f"7: limit.cpu: '100u' {share} core; write 0.001",
        f"8: person_limits.gpus: 0.0001 {share} device; write 0.001",
    ]


def test_started_before_it_was_submitted() -> None:
    load = "{name: w, project: vision, submitted: -1m, started: -5m, pods: [{placed: [{node: node0}]}]}"
    assert reported(f"{GROUND}  - {load}\n") == [
        f"{FIRST}: started: is before it was submitted at -1m; write -1m or later"
    ]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("a-[3-1]", "name: [3-1] counts down; write [1-3]"),
        ("a-[x]", "name: 'a-[x]' has brackets that are no range; write one such as a100-[0-9]"),
        ("a-[0-999999]", "name: 'a-[0-999999]' makes more than 100000 nodes; write a smaller range"),
    ],
)
def test_a_range_that_cannot_be_read_hides_no_reference(name: str, answer: str) -> None:
    mistakes = reported(
        f"cluster: {{nodes: [{{name: '{name}'}}]}}\n"
        "workloads: [{name: w, project: p, pods: [{nodes: [b]}]}]\n"
    )
    assert mistakes == [f"1: {answer}", "2: there is no project p; none exists"]


@pytest.mark.parametrize("link", ["[5]", "[0, 0]"])
def test_links_that_are_wrong(link: str) -> None:
    [mistake] = reported(f"cluster: {{nodes: [{{name: a, gpus: 2, links: [{link}]}}]}}")
    assert mistake.startswith("1: links: ")


@pytest.mark.parametrize(
    ("foreign", "answer"),
    [
        ("[2]", "foreign_devices: there is no device 2; write 0 to 1"),
        ("[0, 0]", "foreign_devices: device 0 is named twice; name it once"),
    ],
)
def test_devices_of_others_that_are_wrong(foreign: str, answer: str) -> None:
    assert reported(f"cluster: {{nodes: [{{name: a, gpus: 2, foreign_devices: {foreign}}}]}}") == [
        f"1: {answer}"
    ]


def test_a_pod_on_a_device_of_others() -> None:
    ground = "cluster: {nodes: [{name: a, gpus: 2, foreign_devices: [1]}]}\nprojects: [{name: p}]\n"
    load = "workloads: [{name: w, project: p, pods: [{gpus: 1, placed: [{node: a, gpus: [1]}]}]}]\n"
    [mistake] = reported(ground + load)
    assert "work of others is on it and has the whole of it; name another device" in mistake


def test_a_circle_of_departments_is_reported_once() -> None:
    text = (
        "cluster: {}\ndepartments:\n- {name: a, parent: c}\n- {name: b, parent: a}\n- {name: c, parent: b}\n"
    )
    assert reported(text) == ["3: parent: a in c in b in a is a circle; leave out the parent of one of them"]


def test_a_department_is_no_project_and_the_other_way_round() -> None:
    text = """\
cluster: {}
departments: [{name: a}, {name: b, parent: p}]
projects: [{name: p, department: p}]
workloads: [{name: w, project: a, pods: [{}]}]
"""
    assert reported(text) == [
        "2: parent: p is a project, not a department; write one of a, b",
        "3: department: p is a project, not a department; write one of a, b",
        "4: project: a is a department, not a project; write one of p",
    ]


@pytest.mark.parametrize(
    ("expect", "answer"),
    [
        ("{pods: {w/0/1: {}}}", "there is no pod w/0/1; write workload/group/index of one, its index from 0"),
        ("{pods: {w/0: {}}}", "there is no pod w/0; write workload/group/index of one, its index from 0"),
        ("{workloads: {w: {node: node9}}}", "there is no node node9; did you mean node1?"),
        ("{workloads: {w: {evicted_by: v}}}", "there is no workload v; write one of w"),
        ("{workloads: {w: {status: done}}}", "expect.workloads.w.status: 'done' isn't known; write running,"),
        (
            "{workloads: {w: {reason: over}}}",
            "expect.workloads.w.reason: 'over' isn't known; write over_limit,",
        ),
        ("{cycles: 0}", "expect.cycles: 0 is too small; write 1 or more"),
    ],
)
def test_an_expectation_that_is_wrong(expect: str, answer: str) -> None:
    [mistake] = reported(f"{GROUND}  - {{name: w, project: vision, pods: [{{}}]}}\nexpect: {expect}\n")
    assert mistake.startswith(f"{FIRST + 1}: {answer}")


@pytest.mark.parametrize(
    "group",
    [
        "gpus: 1" + "0" * 400,
        "gpus: -1" + "0" * 400,
        f"{'g' * 3000}: 1",
        f"node_selector: {{{'k' * 250}: [1]}}",
    ],
)
def test_long_words_are_shortened_in_messages(group: str) -> None:
    """A message stays one sentence, whatever was written."""
    (mistake,) = told_of_group(group)
    assert len(mistake) < 240
