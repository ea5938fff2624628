"""Codes of the reasons why a pod isn't ready to be placed. People read the sentence beside the code."""

GATED = "scheduling_gated"
VOLUME = "volume_not_ready"
CLAIM = "claim_not_ready"
REFUSED = "refused"
OWNER_MISSING = "owner_missing"
