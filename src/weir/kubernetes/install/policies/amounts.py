"""Policy for the amounts of projects and departments.

Each is a number or a quantity, and no limit is below its quota. The definitions of both kinds can't say it.
The API server of Kubernetes 1.31 estimates the cost of their rules by a text of 3 MB for each amount. So it
refuses a rule that looks at each amount of a quota. The cost of a policy is bounded when it runs.

An object that was created before the policy may have a wrong amount. Its metadata may change, else its
finalizers would keep it for ever.
"""

from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.install.policies.expressions import Policy, Refusal, match_rule, refusing_policy

_MEANT = {
    "quota": 'write a number, a quantity such as 500m or 40Gi, or "unlimited"',
    "limit": 'write a number, a quantity such as 500m or 40Gi, or "unlimited"',
    "weight": 'write a number, or a fraction in quotes such as "0.5"',
}
_IS_CHANGED = "(request.operation == 'CREATE' || object.?spec != oldObject.?spec)"
_QUANTITY = "isQuantity({0}) && !quantity({0}).isLessThan(quantity('0'))"


def amount_policy() -> Policy:
    """Return the policy for the amounts of projects and departments."""
    rule = match_rule(GROUP, ["CREATE", "UPDATE"], ["projects", "departments"]) | {"apiVersions": ["*"]}
    return refusing_policy("amounts", [rule], *(_wrong_amount(part) for part in _MEANT), _low_limit())


def _wrong_amount(part: str) -> Refusal:
    """Refuse an amount of this part that is no quantity, or below zero."""
    value = _value(part)
    unlimited = "" if part == "weight" else f"{value} == 'unlimited' || "
    wrong = f"{_names(part)}.filter(r, !({unlimited}{_QUANTITY.format(value)}))"
    name = f"variables.wrong_{part}[0]"
    return Refusal(
        f"{_IS_CHANGED} && {wrong}.size() > 0",
        _MEANT[part],
        f"'the {part} of ' + {name} + ' is ' + {_value(part, name)} + ': {_MEANT[part]}'",
        [(f"wrong_{part}", wrong)],
    )


def _low_limit() -> Refusal:
    """Refuse a limit below the quota of the same resource."""
    limit, quota = _value("limit"), _value("quota")
    less = (
        f"{quota} == 'unlimited' || isQuantity({limit}) && isQuantity({quota}) && "
        f"quantity({limit}).isLessThan(quantity({quota}))"
    )
    low = f"{_names('quota')}.filter(r, r in {_names('limit')} && {limit} != 'unlimited' && ({less}))"
    return Refusal(
        f"{_IS_CHANGED} && {low}.size() > 0",
        "a limit is below its quota: raise it, or lower the quota",
        "'the limit of ' + variables.low_limits[0] + ' is below its quota: raise it, or lower the quota'",
        [("low_limits", low)],
    )


def _names(part: str) -> str:
    return f"object.?spec.?{part}.orValue({{}})"


def _value(part: str, name: str = "r") -> str:
    """Return an expression: an amount as text."""
    return f"string(object.spec.{part}[{name}])"
