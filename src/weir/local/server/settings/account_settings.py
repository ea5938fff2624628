"""Account mode of a server by its settings, and the sentences about it."""

from weir.local.server.access.account_mode import INSTALL, AccountMode, PoolAccounts
from weir.local.server.settings.server_settings import ServerSettings
from weir.user_names import own_user


def account_refused(named: str | None) -> str | None:
    """Return why jobs can't run as the named shared account; None if it is this server's own."""
    if named is None or named == own_user():
        return None
    return (
        f"--shared-account names {named[:80]!r}, but the server and all jobs would run as {own_user()}: "
        "write that name to accept that, or start it as the other user."
    )


def accounts_of(settings: ServerSettings) -> PoolAccounts:
    """Return the account mode that the settings ask for."""
    oidc = settings.remote is not None
    if settings.installed:
        return PoolAccounts(mode=AccountMode.UNIX_ACCOUNTS, admin_group=settings.admin_group, oidc=oidc)
    if settings.shared_account is not None:
        return PoolAccounts(mode=AccountMode.SHARED_ACCOUNT, oidc=oidc)
    return PoolAccounts()


def whom_it_serves(settings: ServerSettings, accounts: PoolAccounts) -> str:
    """Return a sentence that names the people of the pool."""
    remote = settings.remote
    elsewhere = "" if remote is None else f" From elsewhere: WEIR_URL={remote.listen.public_url} weir login"
    return _on_this_machine(settings, accounts) + elsewhere


def _on_this_machine(settings: ServerSettings, accounts: PoolAccounts) -> str:
    match accounts.mode:
        case AccountMode.UNIX_ACCOUNTS:
            return f"It serves everyone on this machine at {settings.socket_path}, without tokens."
        case AccountMode.SHARED_ACCOUNT:
            may = "do everything on this machine" if accounts.owner_uid == 0 else "do all that it can"
            return f"WARNING: everyone with a token runs jobs as {accounts.owner}, and may {may}. {INSTALL}."
        case _:
            return f"It is a personal pool and serves {accounts.owner} alone. For several people: {INSTALL}."
