"""The tree of stages of a compilation: each is done once."""

import logging

import disc
import torch
from disc.core import stages
from torch import nn


def test_stages_are_parts_of_the_stage_around():
    with stages.tree("whole") as tree:
        for _ in range(2):
            with stages.stage("outer"), stages.stage("inner"):
                stages.note("passes", "fuse", milliseconds=2.0)
    outer = tree.parts["outer"]
    assert (tree.times, outer.times, outer.parts["inner"].times) == (1, 2, 2)
    assert outer.parts["inner"].parts["passes"].parts["fuse"].wall == 0.004
    assert tree.wall >= outer.wall >= outer.parts["inner"].wall > 0
    lines = str(tree).splitlines()
    assert [line.split()[0] for line in lines] == ["stage", "whole", "outer", "inner", "passes", "fuse"]


def test_nothing_is_timed_without_a_tree():
    with stages.stage("lost"):
        stages.note("lost", milliseconds=1.0)
    with stages.tree("whole") as tree:
        pass
    assert tree.parts == {}


def test_a_compilation_traces_and_reads_a_module_once(caplog):
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).eval()
    with caplog.at_level(logging.DEBUG, logger="disc.compile"):
        disc.optimize(module, torch.randn(3, 4))
    (text,) = [record.getMessage() for record in caplog.records if "conversion" in record.getMessage()]
    names = [line.strip().split("  ")[0] for line in text.splitlines()]
    for name in (
        "Sequential",
        "trace",
        "conditions",
        "conversion",
        "compile",
        "passes",
        "pack weights",
        "watch",
    ):
        assert name in names, text
