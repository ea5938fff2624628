"""Options that commands share: numbers, times, and the errors of wrong ones."""
