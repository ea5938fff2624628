"""Results of device selectors, remembered by expression and content of devices, and bounded in cost."""

from collections import defaultdict

from weir.kubernetes.claims.cel.evaluator import Selector, StepMeter
from weir.kubernetes.claims.cel.values import CelError
from weir.kubernetes.claims.claim_requests import ExactDevices
from weir.kubernetes.claims.devices import PoolDevice

USUAL_STEPS = 300
"""Steps of an evaluation that are free: a selector of a few attributes and a pattern takes fewer."""
FURTHER_STEPS_MAX = 1_000_000
"""Steps beyond those that one expression may take for all devices of a cluster: a second or two."""
_EXPRESSIONS_MAX = 10_000


class SelectorResults:
    """Results of selectors by expression and content of devices: the same for all nodes of a kind."""

    def __init__(self, most: int = 200_000) -> None:
        self._results: dict[tuple[str, str], bool | CelError] = {}
        self._most = most
        # Steps beyond the usual number, by expression
        self._further: defaultdict[str, int] = defaultdict(int)

    def matches(self, devices: ExactDevices, device: PoolDevice) -> bool:
        """Return True if a device matches all selectors of a request.

        Raises:
            CelError: a selector has no value for this device.
        """
        for selector in devices.selectors:
            key = (selector.text, device.content)
            result = self._results.get(key)
            if result is None:
                if len(self._results) >= self._most:
                    self._results.clear()
                result = self._results[key] = self._evaluated(selector, device)
            if isinstance(result, CelError):
                raise result
            if not result:
                return False
        return True

    def matches_safely(self, devices: ExactDevices, device: PoolDevice) -> bool:
        """Return True if a device matches all selectors of a request, and each has a value for it."""
        try:
            return self.matches(devices, device)
        except CelError:
            return False

    def _evaluated(self, selector: Selector, device: PoolDevice) -> bool | CelError:
        """Return the result for a device; an error if the expression has spent its steps."""
        text = selector.text
        if self._further[text] > FURTHER_STEPS_MAX:
            return CelError(f"the selector takes more than {FURTHER_STEPS_MAX} steps for all devices")
        meter = StepMeter()
        try:
            return selector.matches(device.values, meter)
        except CelError as error:
            return error
        finally:
            if len(self._further) > _EXPRESSIONS_MAX:
                self._further.clear()
            self._further[text] += max(0, meter.steps - USUAL_STEPS)
