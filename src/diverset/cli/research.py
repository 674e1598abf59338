"""Verbs of research: data, train, evaluate, calibrate, reproduce, demo, and model folders."""

from __future__ import annotations

from diverset.cli.calibrate import add_calibrate
from diverset.cli.data import add_data
from diverset.cli.evaluate import add_evaluate
from diverset.cli.models import add_export_model, add_import_reference
from diverset.cli.reproduce import add_demo, add_reproduce
from diverset.cli.train import add_train
from diverset.cli.verb import Verbs


def add_verbs(verbs: Verbs) -> None:
    add_data(verbs)
    add_train(verbs)
    add_evaluate(verbs)
    add_calibrate(verbs)
    add_reproduce(verbs)
    add_demo(verbs)
    add_import_reference(verbs)
    add_export_model(verbs)
