"""Output of commands: text for the terminal, tables, and formats for programs."""
