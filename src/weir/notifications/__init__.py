"""Delivery of notifications: settings of an administrator, channels, texts, and the sender of an outbox."""
