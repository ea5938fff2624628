"""Notifications: settings of the administrator, rules of people, and the delivery of the outbox."""
