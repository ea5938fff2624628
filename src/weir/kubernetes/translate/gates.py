"""Codes for why a pod isn't ready to be placed, beside the sentence that people read."""

GATED = "scheduling_gated"
VOLUME = "volume_not_ready"
CLAIM = "claim_not_ready"
REFUSED = "refused"
OWNER_MISSING = "owner_missing"
