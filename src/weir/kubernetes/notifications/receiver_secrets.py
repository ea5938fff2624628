"""Addresses of webhooks in the Secret `weir-notifications` of the rule's namespace, read for each message.

Weir's account may read that one name, in the namespaces where its role is bound.
"""

import base64
import binascii

from msgspec import field

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, ApiRefused, NotFound
from weir.kubernetes.api.objects import ApiStruct
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.notification_objects import READ_ROLE, SECRET, NotificationRuleSpec
from weir.notifications.message_texts import SECRET_PREFIX
from weir.notifications.receiver_address import NoAddress, ReceiverAddress

FORBIDDEN = 403
SIGNING_BYTES_MIN, SIGNING_BYTES_MAX = 24, 64
"""Length of a signing secret by Standard Webhooks."""


class _SecretView(ApiStruct):
    data: dict[str, str] = field(default_factory=dict)


class ReceiverSecrets:
    """Reads addresses. `account` is the namespace and name of Weir's service account."""

    def __init__(self, api: ApiClient, account: str) -> None:
        self._api = api
        self._account = account

    async def read(self, namespace: str, spec: NotificationRuleSpec) -> ReceiverAddress | NoAddress:
        """Return the address of a rule.

        Raises:
            OSError: the API server doesn't answer now.
        """
        try:
            view = await self._api.get(path_of("v1", "secrets", namespace, SECRET), _SecretView)
            url = _text(view.data, spec.url_key or "", namespace)
            secret = ""
            if spec.signing_secret_key is not None:
                secret = _text(view.data, spec.signing_secret_key, namespace)
                _check_signing(secret, spec.signing_secret_key)
        except NotFound:
            return NoAddress(
                f"there is no Secret {SECRET} in {namespace}: `weir notify add` makes it, or "
                f"kubectl create secret generic {SECRET} -n {namespace} --from-file=KEY=FILE"
            )
        except ApiRefused as error:
            if error.status != FORBIDDEN:
                raise OSError(str(error)) from None
            return NoAddress(
                f"Weir may not read the Secret {SECRET} of {namespace}: kubectl create rolebinding "
                f"{READ_ROLE} -n {namespace} --clusterrole={READ_ROLE} --serviceaccount={self._account} "
                "allows it"
            )
        except ApiError as error:
            raise OSError(str(error)) from None
        except ValueError as error:
            return NoAddress(str(error))
        return ReceiverAddress(url, secret)


def _text(data: dict[str, str], key: str, namespace: str) -> str:
    if key not in data:
        raise ValueError(f"the Secret {SECRET} of {namespace} has no key {key}: write the address into it")
    try:
        return base64.b64decode(data[key]).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError(f"{key} of the Secret {SECRET} of {namespace} isn't text") from None


def _check_signing(secret: str, key: str) -> None:
    try:
        size = len(base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True))
    except ValueError:
        raise ValueError(
            f"{key} of the Secret {SECRET} isn't base64; write {SECRET_PREFIX} and base64"
        ) from None
    if not SIGNING_BYTES_MIN <= size <= SIGNING_BYTES_MAX:
        raise ValueError(
            f"{key} of the Secret {SECRET} has {size} bytes; write {SECRET_PREFIX} and base64 of "
            f"{SIGNING_BYTES_MIN} to {SIGNING_BYTES_MAX} random bytes"
        )
