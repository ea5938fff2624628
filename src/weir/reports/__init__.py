"""Pages for people: one file each, with everything in it and nothing fetched."""
