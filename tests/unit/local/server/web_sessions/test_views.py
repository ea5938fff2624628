"""Views of sessions: a link works once, for its session, for a minute."""

from pathlib import Path

import pytest

from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.web_sessions import views as table
from weir.local.server.web_sessions.views import CODE_S, CODES_MAX, FILE, VIEW_S, SessionViews


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def here(user: str, _workload: str) -> bool:
    return user == "mia"


def test_a_code_works_once_and_in_time(tmp_path: Path) -> None:
    clock = Clock()
    views = SessionViews(tmp_path, clock)
    code, _ = views.make_code("uid:1", "mia", 7, "notes", "jupyter")
    cookie = views.begin(code, "notes", here)
    assert (views.view_of(cookie, "notes", here).uid, views.view_of(cookie, "notes", here).credential) == (
        7,
        "uid:1",
    )
    with pytest.raises(RequestRefused, match="used already"):
        views.begin(code, "notes", here)
    late, _ = views.make_code("uid:1", "mia", 7, "notes", "jupyter")
    clock.now_s += CODE_S
    with pytest.raises(RequestRefused, match="older than a minute"):
        views.begin(late, "notes", here)
    other, _ = views.make_code("uid:1", "mia", 7, "notes", "jupyter")
    with pytest.raises(RequestRefused):
        views.begin(other, "others", here)


def test_a_view_is_for_one_session_and_ends(tmp_path: Path) -> None:
    clock = Clock()
    views = SessionViews(tmp_path, clock)
    cookie = views.begin(views.make_code("uid:1", "mia", 7, "notes", "jupyter")[0], "notes", here)
    again = SessionViews(tmp_path, clock)
    assert again.view_of(cookie, "notes", here).kind == "jupyter"
    assert cookie.encode() not in (tmp_path / FILE).read_bytes()
    with pytest.raises(RequestRefused, match="no access to others"):
        again.view_of(cookie, "others", here)
    clock.now_s += VIEW_S
    with pytest.raises(RequestRefused, match="no access"):
        again.view_of(cookie, "notes", here)


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": {"uid": 1}}', b"[]"])
def test_a_file_that_is_none_means_no_views(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RequestRefused):
        SessionViews(tmp_path, Clock()).view_of("x", "notes", here)


def test_a_view_holds_at_the_address_of_its_person_alone(tmp_path: Path) -> None:
    views = SessionViews(tmp_path, Clock())

    def elsewhere(user: str, _workload: str) -> bool:
        return user != "mia"

    with pytest.raises(RequestRefused):
        views.begin(views.make_code("uid:1", "mia", 7, "notes", "jupyter")[0], "notes", elsewhere)
    cookie = views.begin(views.make_code("uid:1", "mia", 7, "notes", "jupyter")[0], "notes", here)
    with pytest.raises(RequestRefused):
        views.view_of(cookie, "notes", elsewhere)
    assert SessionViews(tmp_path, Clock()).users() == {"mia"}


def test_a_view_holds_for_the_account_that_opened_the_link(tmp_path: Path) -> None:
    views = SessionViews(tmp_path, Clock())
    cookie = views.begin(views.make_code("uid:1", "mia", 7, "notes", "jupyter")[0], "notes", here, 1000)
    again = SessionViews(tmp_path, Clock())
    assert again.view_of(cookie, "notes", here, 1000).user == "mia"
    for other in (1001, 0, None):
        with pytest.raises(RequestRefused, match="no access to notes"):
            again.view_of(cookie, "notes", here, other)
    unknown = views.begin(views.make_code("uid:1", "mia", 7, "notes", "jupyter")[0], "notes", here)
    assert views.view_of(unknown, "notes", here, 1001).user == "mia"


def test_links_and_views_of_one_person_end_none_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "VIEWS_MAX", 20)
    clock = Clock()
    views = SessionViews(tmp_path, clock)
    cookie = views.begin(views.make_code("uid:1", "mia", 7, "notes", "jupyter")[0], "notes", here)
    code, _ = views.make_code("uid:1", "mia", 7, "notes", "jupyter")
    for _ in range(CODES_MAX + 5):
        made, _ = views.make_code("uid:2", "ben", 8, "other", "jupyter")
    for _ in range(40):
        views.begin(made, "other", lambda user, _: user == "ben")
        made, _ = views.make_code("uid:2", "ben", 8, "other", "jupyter")
    assert views.view_of(cookie, "notes", here).uid == 7
    assert views.view_of(views.begin(code, "notes", here), "notes", here).uid == 7
