"""The quota tree, with the members, tokens and templates of its projects."""
