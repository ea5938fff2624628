"""Variables that a job gets from the shell."""

import json

from weir.cli.slurm.exported_variables import exported_variables
from weir.slurm.job_settings import FUNCTIONS

SHELL = {
    "DATA": "/data",
    "AWS_SECRET_ACCESS_KEY": "abc",
    "HF_TOKEN": "def",
    "TOKENIZERS_PARALLELISM": "false",
    "WEIR_TOKEN": "ghi",
    "SBATCH_PARTITION": "gpu",
    "SLURM_JOB_ID": "1",
    "BASH_FUNC_module%%": "() { echo; }",
    "not a name": "x",
    "PWD": "/here",
}


def test_all_but_secrets_are_passed_on() -> None:
    found = exported_variables(None, SHELL)
    assert found.variables == {
        "DATA": "/data",
        "TOKENIZERS_PARALLELISM": "false",
        FUNCTIONS: json.dumps({"BASH_FUNC_module%%": "() { echo; }"}),
    }
    assert list(found.secret) == ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN"]


def test_a_secret_that_is_named_is_passed_on() -> None:
    found = exported_variables("ALL,HF_TOKEN,X=1", SHELL)
    assert found.variables["HF_TOKEN"] == "def"
    assert found.variables["X"] == "1"
    assert list(found.secret) == ["AWS_SECRET_ACCESS_KEY"]


def test_names_and_none() -> None:
    assert exported_variables("DATA,X=1,MISSING", SHELL) == ({"DATA": "/data", "X": "1"}, [])
    assert exported_variables("NONE", SHELL) == ({}, ())
