"""Help of the command line: texts, completion, corrections of wrong words, and missing extras."""
