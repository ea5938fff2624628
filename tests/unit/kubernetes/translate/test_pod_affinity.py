"""Pods near to and apart from others: marks, rules, and who is to be read again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kubernetes.written import affinity, matching, pod, term

from weir.kubernetes.translate.pod_affinity import NO_POD, SPREAD_WISH, PodAffinities, PodSelectors
from weir.model.workloads import PodAffinityRule

WEB = {"app": "web"}
IS_WEB = matching(app="web")
EVERY_NAMESPACE = {"namespaceSelector": {}}


def tracked(*pods, namespaces=None):
    marks = PodSelectors()
    for name, labels in (namespaces or {}).items():
        marks.namespace(name, labels)
    for each in pods:
        marks.see(each)
    return marks


def of(marks, name):
    return marks.affinities_of(f"uid-{name}")


def spread(key="zone", *, skew=1, must=True, selector=IS_WEB, **more):
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if must else "ScheduleAnyway",
        "labelSelector": selector,
        **more,
    }


def test_pods_that_no_rule_selects_stay_equal():
    marks = tracked(pod("a", labels={"pod": "1"}), pod("b", labels={"pod": "2"}))
    assert of(marks, "a") == of(marks, "b") == PodAffinities()
    assert marks.affinities_of("uid-unknown") == PodAffinities()


def test_nearness_is_a_rule_by_a_mark_that_those_it_names_bear():
    marks = tracked(
        pod("web", labels=WEB), pod("client", affinity=affinity(near=[term(IS_WEB)])), pod("other")
    )
    assert of(marks, "web") == PodAffinities(("app=web in team",))
    assert of(marks, "client") == PodAffinities((), (PodAffinityRule("affinity", "app=web in team", "zone"),))
    assert of(marks, "other") == PodAffinities()


def test_distance_works_both_ways():
    marks = tracked(pod("web", labels=WEB), pod("loud", affinity=affinity(apart=[term(IS_WEB)])))
    loud = "apart from app=web in team by zone"
    assert of(marks, "web") == PodAffinities(
        ("app=web in team",), (PodAffinityRule("anti_affinity", loud, "zone"),)
    )
    assert of(marks, "loud") == PodAffinities(
        (loud,), (PodAffinityRule("anti_affinity", "app=web in team", "zone"),)
    )


def test_pods_apart_from_their_own_kind_have_both_sides():
    marks = tracked(
        *(pod(name, labels=WEB, affinity=affinity(apart=[term(IS_WEB, "host")])) for name in "ab")
    )
    assert of(marks, "a") == of(marks, "b")
    assert of(marks, "a") == PodAffinities(
        ("apart from app=web in team by host", "app=web in team"),
        (
            PodAffinityRule("anti_affinity", "apart from app=web in team by host", "host"),
            PodAffinityRule("anti_affinity", "app=web in team", "host"),
        ),
    )


def test_wishes_have_weights_and_those_they_are_about_have_them_too():
    marks = tracked(
        pod("web", labels=WEB),
        pod(
            "a", affinity=affinity(rather_near=[(30, term(IS_WEB))], rather_apart=[(7, term(IS_WEB, "host"))])
        ),
    )
    near, apart = "rather (30) near app=web in team by zone", "rather (7) apart from app=web in team by host"
    assert of(marks, "a").marks == (near, apart)
    assert of(marks, "web") == PodAffinities(
        ("app=web in team",),
        (PodAffinityRule("affinity", near, "zone", 30), PodAffinityRule("anti_affinity", apart, "host", 7)),
    )
    assert of(marks, "a").rules == (
        PodAffinityRule("affinity", "app=web in team", "zone", 30),
        PodAffinityRule("anti_affinity", "app=web in team", "host", 7),
    )


def test_several_terms_of_nearness_count_those_pods_that_all_of_them_match():
    near = [term(IS_WEB), term(matching(tier="front"), "host")]
    marks = tracked(
        pod("web", labels=WEB),
        pod("both", labels=WEB | {"tier": "front"}),
        pod("a", affinity=affinity(near=near)),
    )
    name = "app=web in team and tier=front in team"
    assert of(marks, "both").marks == (name,)
    assert of(marks, "web") == PodAffinities()
    assert {(rule.mark, rule.topology) for rule in of(marks, "a").rules} == {(name, "zone"), (name, "host")}


def test_affinity_to_no_pod_fails_and_anti_affinity_to_no_pod_holds():
    marks = tracked(
        pod("a", affinity=affinity(near=[term(None)], apart=[term(None)])), pod("web", labels=WEB)
    )
    assert of(marks, "a") == PodAffinities((), (PodAffinityRule("affinity", NO_POD, "zone"),))
    assert of(marks, "web") == PodAffinities()


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        (spread(skew=2), PodAffinityRule("spread", "app=web in team", "zone", 0, 2)),
        (spread(minDomains=3), PodAffinityRule("spread", "app=web in team", "zone", 0, 1, 3)),
        (spread(must=False, minDomains=3), PodAffinityRule("spread", "app=web in team", "zone", SPREAD_WISH)),
        (
            spread(nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
            PodAffinityRule("spread", "app=web in team", "zone", every_node=True, untainted=True),
        ),
        (
            spread(nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"),
            PodAffinityRule("spread", "app=web in team", "zone"),
        ),
        (spread(selector=None), PodAffinityRule("spread", NO_POD, "zone")),
        (spread(selector={}), PodAffinityRule("spread", "every pod in team", "zone")),
    ],
)
def test_spread_counts_pods_of_the_own_namespace(written, rule):
    marks = tracked(
        pod("web", labels=WEB),
        pod("a", topologySpreadConstraints=[written]),
        pod("x", namespace="b", labels=WEB),
    )
    assert of(marks, "a").rules == (rule,)
    assert of(marks, "x") == PodAffinities()


@pytest.mark.parametrize(
    ("more", "near"),
    [
        ({}, {"team"}),
        ({"namespaces": ["a"]}, {"a"}),
        ({"namespaces": ["a", "team"]}, {"a", "team"}),
        (EVERY_NAMESPACE, {"team", "a", "b"}),
        ({"namespaceSelector": matching(env="test")}, {"b"}),
        ({"namespaceSelector": matching(env="test"), "namespaces": ["a"]}, {"a", "b"}),
    ],
)
def test_a_term_counts_pods_of_its_namespaces(more, near):
    pods = [pod(f"web-{space}", namespace=space, labels=WEB) for space in ("team", "a", "b")]
    marks = tracked(
        pod("x", affinity=affinity(near=[term(IS_WEB, **more)])),
        *pods,
        namespaces={"a": {}, "b": {"env": "test"}, "team": {}},
    )
    assert {each.metadata.namespace for each in pods if marks.affinities_of(each.metadata.uid).marks} == near


def test_keys_that_have_to_match_are_part_of_the_selector():
    old, new = {"app": "web", "hash": "1"}, {"app": "web", "hash": "2"}
    only_mine = spread(matchLabelKeys=["hash", "nothing"])
    not_mine = affinity(apart=[term(IS_WEB, mismatchLabelKeys=["hash"])])
    marks = tracked(
        pod("a", labels=new, topologySpreadConstraints=[only_mine], affinity=not_mine), pod("b", labels=old)
    )
    by = {rule.kind: rule.mark for rule in of(marks, "a").rules}
    assert by["spread"] == "app=web,hash=2 in team"
    assert by["anti_affinity"] == "app=web,hash!=2 in team"
    assert "app=web,hash!=2 in team" in of(marks, "b").marks


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {}, True),
        (
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]},
            {"app": "api"},
            True,
        ),
        (
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
            {"app": "web"},
            False,
        ),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, {}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {"app": ""}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {"app": ""}, False),
        ({"matchLabels": WEB, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, WEB, False),
    ],
)
def test_selectors_match_as_in_kubernetes(selector, labels, matches):
    marks = tracked(pod("a", affinity=affinity(near=[term(selector)])), pod("b", labels=labels))
    assert bool(of(marks, "b").marks) is matches


def test_one_selector_written_in_two_ways_is_one_mark():
    as_list = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    marks = tracked(
        pod("a", affinity=affinity(near=[term(IS_WEB)])), pod("b", affinity=affinity(near=[term(as_list)]))
    )
    assert of(marks, "a") == of(marks, "b")
    assert len(marks) == 1


def test_a_long_selector_has_a_short_name_of_its_own():
    values = [f"value-{at}" for at in range(100)]
    many = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    fewer = {"matchExpressions": [{"key": "app", "operator": "In", "values": values[:-1]}]}
    marks = tracked(
        *(pod(name, affinity=affinity(near=[term(each)])) for name, each in (("a", many), ("b", fewer)))
    )
    names = {of(marks, name).rules[0].mark for name in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 160 for name in names)


def test_a_new_selector_says_who_is_to_be_read_again():
    marks = tracked(pod("web", labels=WEB), pod("api", labels={"app": "api"}))
    client = pod("client", affinity=affinity(near=[term(IS_WEB)]))
    assert marks.see(client) == {"uid-web"}
    assert marks.see(client) == frozenset()
    assert marks.see(pod("second", affinity=affinity(near=[term(IS_WEB, "host")]))) == frozenset()


def test_a_mark_outlives_its_last_user_but_not_its_last_bearer():
    marks = tracked(pod("web", labels=WEB), pod("client", affinity=affinity(near=[term(IS_WEB)])))
    marks.forget("uid-client")
    assert of(marks, "web").marks == ("app=web in team",)
    assert marks.see(pod("client", affinity=affinity(near=[term(IS_WEB)]))) == frozenset()
    marks.forget("uid-client")
    marks.forget("uid-web")
    assert len(marks) == 0


def test_a_pod_whose_labels_change_bears_other_marks():
    marks = tracked(pod("client", affinity=affinity(near=[term(IS_WEB)])), pod("web", labels=WEB))
    marks.see(pod("web", labels={"app": "old"}))
    assert of(marks, "web") == PodAffinities()


def test_the_labels_of_a_namespace_say_who_is_to_be_read_again():
    by_label = affinity(near=[term(IS_WEB, namespaceSelector=matching(env="test"))])
    marks = tracked(pod("a", affinity=by_label), pod("web", namespace="b", labels=WEB))
    assert marks.namespace("b", {"env": "test"}) == {"uid-web"}
    assert of(marks, "web").marks
    assert marks.namespace("b", {"env": "test"}) == frozenset()
    assert marks.namespace("b", None) == {"uid-web"}
    assert of(marks, "web") == PodAffinities()


LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["web", "api"]), max_size=2)
SELECTORS = st.one_of(
    st.none(),
    st.builds(lambda labels: {"matchLabels": labels}, LABELS),
    st.builds(
        lambda key, operator: {
            "matchExpressions": [
                {"key": key, "operator": operator, "values": ["web"] if "In" in operator else []}
            ]
        },
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    ),
)
SPACES = st.sampled_from(["team", "b"])
TERMS = st.builds(
    lambda selector, more: term(selector, **more),
    SELECTORS,
    st.sampled_from(
        [{}, EVERY_NAMESPACE, {"namespaces": ["b"]}, {"namespaceSelector": matching(env="test")}]
    ),
)
PODS = st.builds(
    lambda name, space, labels, near, apart: pod(
        name, namespace=space, uid=f"{space}-{name}", labels=labels, affinity=affinity(near=near, apart=apart)
    ),
    st.sampled_from("abcd"),
    SPACES,
    LABELS,
    st.lists(TERMS, max_size=2),
    st.lists(TERMS, max_size=1),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), PODS),
        st.tuples(
            st.just("forget"),
            st.builds(lambda space, name: f"{space}-{name}", SPACES, st.sampled_from("abcd")),
        ),
        st.tuples(st.just("namespace"), SPACES, st.sampled_from([{}, {"env": "test"}])),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_reading_only_the_named_pods_again_suffices(steps):
    """The known neighbours stay right, and are those a fresh look would find, but for marks that say nothing."""
    marks, pods, spaces, known = PodSelectors(), {}, {}, {}
    for what, *rest in steps:
        if what == "see":
            again = marks.see(rest[0]) | {rest[0].metadata.uid}
            pods[rest[0].metadata.uid] = rest[0]
        elif what == "forget":
            marks.forget(rest[0])
            pods.pop(rest[0], None)
            known.pop(rest[0], None)
            again = frozenset()
        else:
            again = marks.namespace(*rest)
            spaces[rest[0]] = rest[1]
        known.update((uid, marks.affinities_of(uid)) for uid in again)
        assert known == {uid: marks.affinities_of(uid) for uid in pods}
    fresh = tracked(*pods.values(), namespaces=spaces)
    now = {uid: fresh.affinities_of(uid) for uid in pods}
    borne = {mark for each in now.values() for mark in each.marks}
    used = {rule.mark for each in now.values() for rule in each.rules}
    for uid, each in known.items():
        assert set(now[uid].marks) <= set(each.marks)
        assert set(now[uid].rules) <= set(each.rules)
        assert not (set(each.marks) - set(now[uid].marks)) & used
        assert not {rule.mark for rule in set(each.rules) - set(now[uid].rules)} & borne
    for uid in pods:
        marks.forget(uid)
    assert len(marks) == 0
