"""Indices of a job array: `--array=0-15:4,20%2`."""

from weir.model.array_indices import ArrayIndices, read_indices
from weir.slurm.errors import SlurmError


def array_indices(text: str) -> ArrayIndices:
    """Return the indices of a job array.

    Raises:
        SlurmError: it is no list of indices.
    """
    try:
        return read_indices(array_text(text))
    except ValueError as error:
        raise SlurmError(f"--array={text}: {error}") from None


def array_text(text: str) -> str:
    """Return the indices as a submission writes them: without brackets, and without a limit of 0."""
    listed, limited, at_once = text.partition("%")
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    return listed if limited and at_once.strip("0") == "" and at_once else f"{listed}{limited}{at_once}"
