"""`weir nodes show`: a node with its GPUs."""

import pytest
from tests.unit.cli.samples import NODE
from tests.unit.client.fake import Fake, page

from weir.cli.main import main

SHOWN = """\
  Node    box
  State   cordoned
  Model   H200
  GPUs    1.75 of 3 allocated
  CPU     9.5 of 64 allocated
  Memory  20Gi of 512Gi allocated
  Pods    3
  Labels  zone=a

GPU    MODEL  ALLOCATED   USE         MEMORY  WORKLOADS
box/0  H200       whole  97 %  61Gi of 150Gi  train-4k2p
box/1  H200        75 %   1 %   3Gi of 150Gi  notebook, eval
box/2  H200        free   0 %     0 of 150Gi
"""


def test_node_is_shown_with_its_gpus(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/nodes", page({**NODE, "name": "other"}, {**NODE, "state": ["cordoned"]}))
    assert main(["nodes", "show", "box"]) == 0
    assert capsys.readouterr().out == SHOWN
    assert main(["nodes", "show", "bx"]) == 2
    assert capsys.readouterr().err == "weir: There is no node bx; `weir nodes` shows which there are.\n"
