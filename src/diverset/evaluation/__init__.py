"""Evaluation: ranks, recalls, protocols, set health, hubness correction, significance.

`evaluate_sets` evaluates encoded sets. `diverset.evaluation.run.evaluate` (`diverset.evaluate`)
evaluates trained models on a dataset; it needs the extra `train`.
"""

import lazy_loader

# Lazily, because a search needs the calibration only.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
