"""Checks of a rule's receiver before anything is sent, for the status of the rule."""

from typing import TYPE_CHECKING

from weir.kubernetes.notifications.receiver_secrets import ReceiverSecrets
from weir.kubernetes.notifications.rule_state import RuleState
from weir.notifications.receiver_address import NoAddress

if TYPE_CHECKING:
    from weir.notifications.notification_settings import NotificationSettings

NOT_SET_UP = (
    "notifications aren't set up here: the administrator names a Secret with their settings in the value "
    "notifications.secret of the Helm chart"
)


async def receiver_of(
    state: RuleState, settings: "NotificationSettings | None", addresses: ReceiverSecrets
) -> tuple[str, str]:
    """Return the receiver to show, and why nothing can be sent to it; empty if it can.

    Raises:
        OSError: the API server doesn't answer now.
    """
    if state.unreadable:
        return "", state.unreadable
    if settings is None:
        return "", NOT_SET_UP
    if state.rule.channel == "mail":
        return state.rule.target, _mail_refusal(state.rule.target, settings)
    from weir.notifications.webhook_targets import TargetRefused, checked_target

    address = await addresses.read(state.namespace, state.spec)
    if isinstance(address, NoAddress):
        return "", address.sentence
    try:
        return checked_target(address.url, settings.webhooks.hosts).shown, ""
    except TargetRefused as refused:
        return "", str(refused)


def _mail_refusal(address: str, settings: "NotificationSettings") -> str:
    mail = settings.mail
    if mail is None:
        return "the administrator has not set up mail"
    if not mail.allows(address):
        domains = ", ".join(mail.domains[:5])
        return f"mail to {address[:80]} isn't allowed; the administrator allows {domains}"
    return ""
