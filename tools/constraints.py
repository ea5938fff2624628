"""Print constraints.txt: every installed package but our own and the installer, at its version."""

from importlib.metadata import distributions

BUILD = ("hatchling==1.33.0", "setuptools==84.2.1", "trove-classifiers==2026.9.21.13")
LEFT_OUT = {"weir", "pip", "setuptools"}


def main() -> None:
    """Print the file."""
    found = {f"{each.name}=={each.version}" for each in distributions() if each.name.lower() not in LEFT_OUT}
    print("# Every package make installs, at the version it is tested with. Renew with: make constraints")
    print("\n".join(sorted(found.union(BUILD), key=str.lower)))


if __name__ == "__main__":
    main()
