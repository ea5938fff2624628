"""Sessions and links of the dashboard: one person's don't end those of others."""

from weir.dashboard.session_table import CODES_MAX, SESSIONS_MAX, SessionTable

MIA, BEN = "uid:1", "uid:2"


def test_sessions_and_links_of_one_person_end_none_of_others() -> None:
    table = SessionTable(lambda: 1000.0, is_known=lambda _: True, signed_out="signed out")
    session, (code, _) = table.begin(MIA), table.make_code(MIA)
    ended = table.begin(BEN)
    for _ in range(SESSIONS_MAX):
        last = table.begin(BEN)
    for _ in range(CODES_MAX):
        table.make_code(BEN)
    assert table.credential_of(*session) == MIA
    assert table.redeem(code) == MIA
    assert len(table.sessions) == SESSIONS_MAX
    assert table.credential_of(*last) == BEN
    assert not table.end(ended[0])


def test_person_with_several_credentials_counts_once() -> None:
    class ByPerson(SessionTable):
        def owner_of(self, credential: str) -> str:
            return {"uid:1": "mia", "uid:2": "ann"}.get(credential, "ben")

    table = ByPerson(lambda: 1000.0, is_known=lambda _: True, signed_out="signed out")
    sessions = [table.begin(each) for each in ("uid:1", "uid:2", "uid:2")]
    for at in range(SESSIONS_MAX):
        table.begin(f"uid:{10 + at}")
    assert [table.credential_of(*each) for each in sessions] == ["uid:1", "uid:2", "uid:2"]
