"""How well sets retrieve, and whether they are still sets.

`evaluate_sets` gives a `Report` of recalls under a protocol and of the health of the sets;
`paired_bootstrap` compares two of them. Data flows members -> recall, top -> protocols, health ->
report. Nothing here knows models or files of pictures: encode a collection first.
"""

from diverset.evaluation.bootstrap import Comparison, paired_bootstrap
from diverset.evaluation.cxc import CxcAnnotations, cxc_recalls, read_cxc
from diverset.evaluation.eccv import eccv_scores, in_percent
from diverset.evaluation.elements import (
    evaluate_each_element,
    evaluate_elements,
    select_elements,
)
from diverset.evaluation.evaluate import evaluate_ensemble, evaluate_sets
from diverset.evaluation.health import Health, SetHealth, circular_variance, set_health
from diverset.evaluation.hubness import Bank, choose_weight, evaluate_corrected
from diverset.evaluation.members import Member
from diverset.evaluation.protocols import PROTOCOLS, Protocol, folds, run_protocol
from diverset.evaluation.recall import Ranks, Recalls, ensemble_ranks, ranks, rsum
from diverset.evaluation.report import Report
from diverset.evaluation.top import Top, top_ranked

__all__ = [
    "PROTOCOLS",
    "Bank",
    "Comparison",
    "CxcAnnotations",
    "Health",
    "Member",
    "Protocol",
    "Ranks",
    "Recalls",
    "Report",
    "SetHealth",
    "Top",
    "choose_weight",
    "circular_variance",
    "cxc_recalls",
    "eccv_scores",
    "ensemble_ranks",
    "evaluate_corrected",
    "evaluate_each_element",
    "evaluate_elements",
    "evaluate_ensemble",
    "evaluate_sets",
    "folds",
    "in_percent",
    "paired_bootstrap",
    "ranks",
    "read_cxc",
    "rsum",
    "run_protocol",
    "select_elements",
    "set_health",
    "top_ranked",
]
