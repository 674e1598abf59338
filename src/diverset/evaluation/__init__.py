"""Evaluation: ranks, recalls, protocols, set health, hubness correction, significance.

`evaluate_sets` evaluates encoded sets. `diverset.evaluation.run.evaluate` (`diverset.evaluate`)
evaluates trained models on a dataset; it needs the extra `train`.
"""

from diverset.evaluation.bootstrap import Comparison, paired_bootstrap
from diverset.evaluation.cxc import CxcAnnotations, cxc_scores, read_cxc
from diverset.evaluation.eccv import EccvScores, eccv_scores
from diverset.evaluation.elements import select_elements
from diverset.evaluation.ensemble import Member
from diverset.evaluation.health import Health, SetHealth, circular_variance, set_health
from diverset.evaluation.hubness import QueryBank, choose_weight, evaluate_corrected
from diverset.evaluation.recall import Ranks, Recalls, ensemble_ranks, ranks
from diverset.evaluation.report import Report
from diverset.evaluation.sets import PROTOCOLS, Protocol, evaluate_members, evaluate_sets
from diverset.evaluation.top import Top, top_ranked

__all__ = [
    "PROTOCOLS",
    "Comparison",
    "CxcAnnotations",
    "EccvScores",
    "Health",
    "Member",
    "Protocol",
    "QueryBank",
    "Ranks",
    "Recalls",
    "Report",
    "SetHealth",
    "Top",
    "choose_weight",
    "circular_variance",
    "cxc_scores",
    "eccv_scores",
    "ensemble_ranks",
    "evaluate_corrected",
    "evaluate_members",
    "evaluate_sets",
    "paired_bootstrap",
    "ranks",
    "read_cxc",
    "select_elements",
    "set_health",
    "top_ranked",
]
