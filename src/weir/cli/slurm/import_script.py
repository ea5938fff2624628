"""`weir import sbatch`: print a job script of Slurm as a submission of Weir."""

import os
import sys
from typing import Annotated, Any

from cyclopts import App, Parameter

from weir.cli.options.mistakes import option_mistakes
from weir.cli.output.terminal import plain

app = App(
    name="sbatch",
    help_flags=["--help", "-h"],
    version_flags=[],
    end_of_options_delimiter="\0",  # no word equals this, so all words are passed on
)


@app.default
def import_sbatch(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Convert a job script of Slurm; print a file for `weir submit -f`, and a ledger on standard error.

    The ledger says of each directive whether it is kept, changed or ignored, and why.

    Parameters
    ----------
    words
        Options of sbatch, the script and its arguments. --best-effort goes on without options that Weir
        doesn't have. --project names the project; without it, it is that of the script's account or
        $WEIR_PROJECT.
    """
    from weir.cli.slurm.batch_script import read_batch_script
    from weir.cli.slurm.site_table import site_names
    from weir.cli.slurm.weir_file import weir_file

    with option_mistakes():
        fields, ledger = weir_file(
            read_batch_script(words, os.environ), site_names(), os.environ.get("WEIR_PROJECT")
        )
    for line in ledger:
        print(plain(str(line)), file=sys.stderr)
    sys.stdout.write(_as_file(fields))
    return 0


def _as_file(fields: dict[str, Any]) -> str:
    """Return fields as YAML, with a script as a block of lines."""
    import yaml

    class Block(yaml.SafeDumper):
        """Writes a text of several lines as a block."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Block.add_representer(str, text)
    written: str = yaml.dump(fields, Dumper=Block, sort_keys=False, allow_unicode=True, width=110)
    return written
