"""Roles, actions and scopes: the table of who may do what, and the roles that memberships give."""

import pytest

from weir.local.server.access.authorization import Action, Person, Role, may, require, visible
from weir.local.server.changes.memberships import effective_roles, parse_subject
from weir.local.server.http.problem_details import RequestRefused
from weir.model.queues import Queue
from weir.store.records import MembershipRecord

MINE, OTHERS = "mia", "ben"
WHO = ("none", "viewer", "member", "lead", "admin")
TABLE = {
    # action: who may do it to their own, who may do it to what others have
    Action.VIEW: ("viewer", "viewer"),
    Action.READ_OUTPUT: ("viewer", "lead"),
    Action.READ_ENVIRONMENT: ("viewer", "admin"),
    Action.SUBMIT: ("member", "member"),
    Action.CONTROL: ("viewer", "lead"),
    Action.DELETE_SWEEP: ("viewer", "lead"),
    Action.USE_SECRETS: ("member", "member"),
    Action.CHANGE_SECRET: ("member", "lead"),
    Action.NOTIFY: ("lead", "lead"),
    Action.CHANGE_TEMPLATES: ("lead", "lead"),
    Action.SET_QUOTAS: ("lead", "lead"),
    Action.MANAGE_MEMBERS: ("lead", "lead"),
    Action.EXCEED_LIMITS: ("admin", "admin"),
    Action.ADMINISTER: ("admin", "admin"),
}
QUEUES = (
    Queue("research", is_project=False),
    Queue("vision", "research"),
    Queue("speech", "research"),
    Queue("ops"),
)


def person(who: str, scope: str = "vision") -> Person:
    roles = {scope: Role[who.upper()]} if who in ("viewer", "member", "lead") else {}
    return Person(MINE, who == "admin", roles)


def test_table_names_every_action() -> None:
    assert set(TABLE) == set(Action)


@pytest.mark.parametrize("action", Action, ids=lambda action: action.name.lower())
@pytest.mark.parametrize("who", WHO)
def test_role_allows_what_the_table_says(action: Action, who: str) -> None:
    own, others = TABLE[action]
    rank = WHO.index(who)
    assert may(person(who), action, "vision", owner=MINE) == (rank >= WHO.index(own))
    assert may(person(who), action, "vision", owner=OTHERS) == (rank >= WHO.index(others))
    assert may(person(who), action, "vision") == (rank >= WHO.index(others)), "what is no one's is others'"
    for scope in ("speech", "research", "Vision", "", None):
        for owner in (MINE, OTHERS, None):
            assert may(person(who), action, scope, owner=owner) == (who == "admin"), scope


def test_refusal_names_who_may() -> None:
    cases = (
        ("none", Action.SUBMIT, "You have no role in vision: its lead or an administrator adds you."),
        ("viewer", Action.SUBMIT, "As a viewer of vision you can't submit: its members can."),
        ("member", Action.CONTROL, "As a member of vision you can't change work of others: its leads can."),
        ("lead", Action.READ_ENVIRONMENT, "Only an administrator may do this."),
        ("lead", Action.ADMINISTER, "Only an administrator may do this."),
    )
    for who, action, sentence in cases:
        with pytest.raises(RequestRefused) as refused:
            require(person(who), action, "vision", owner=OTHERS)
        assert (refused.value.status, str(refused.value)) == (403, sentence)
    require(person("member"), Action.CONTROL, "vision", owner=MINE)


def test_visible_scopes_are_those_with_a_role() -> None:
    names = [queue.name for queue in QUEUES]
    assert visible(person("viewer"), names) == ["vision"]
    assert visible(person("admin"), names) == names
    assert visible(person("none"), names) == []


@pytest.mark.parametrize(
    ("memberships", "roles"),
    [
        ([("vision", "user", "mia", "member")], {"vision": 2}),
        ([("research", "user", "mia", "lead")], {"research": 3, "vision": 3, "speech": 3}),
        ([("vision", "group", "staff", "viewer"), ("vision", "user", "mia", "member")], {"vision": 2}),
        (
            [("research", "group", "staff", "viewer"), ("vision", "user", "mia", "lead")],
            {"research": 1, "vision": 3, "speech": 1},
        ),
        (
            [("research", "user", "mia", "lead"), ("vision", "user", "mia", "viewer")],
            {"research": 3, "vision": 3, "speech": 3},
        ),
        ([("ops", "everyone", "", "member")], {"ops": 2}),
        ([("vision", "user", "ben", "lead"), ("vision", "group", "wheel", "lead")], {}),
        ([("vision", "group", "mia", "lead"), ("vision", "user", "staff", "lead")], {}),
        ([("gone", "user", "mia", "lead")], {}),
    ],
)
def test_memberships_give_the_highest_role_in_each_scope(
    memberships: list[tuple[str, str, str, str]], roles: dict[str, int]
) -> None:
    records = [MembershipRecord(*each) for each in memberships]  # type: ignore[arg-type]
    assert effective_roles(records, "mia", frozenset({"staff"}), QUEUES) == roles


def test_subjects_are_users_groups_and_everyone() -> None:
    assert parse_subject("mia") == ("user", "mia")
    assert parse_subject("@staff") == ("group", "staff")
    assert parse_subject("@everyone") == ("everyone", "")
    assert parse_subject("LAB\\mia.x") == ("user", "LAB\\mia.x")
    for text in ("", "@", "@@x", "-r", "a b", "a/b", "a\n", "a:b", "\x07", "x" * 300, chr(0x202E) + "mia"):
        with pytest.raises(RequestRefused):
            parse_subject(text)
