"""Situations of daily life: small functions, each of which does one legal thing to the cluster and says what."""
