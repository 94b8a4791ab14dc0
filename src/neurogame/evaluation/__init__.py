"""How good a model is: accuracy, F1, calibration, comparison with another run, and the report of it all.

`evaluate` runs a model over data sets and returns a `Report`. The parts can be used alone:
`metrics.score` for given logits, `calibration.fit_temperature`, `comparison.compare`, `figures.draw`.
Whether explanations are faithful is not measured here.
"""

from neurogame.evaluation.alignment import Aligned, align
from neurogame.evaluation.calibration import Calibration, Confidence, calibrate, fit_temperature
from neurogame.evaluation.comparison import Comparison, compare, mcnemar
from neurogame.evaluation.metrics import Group, Scores, by, score
from neurogame.evaluation.predictions import Predictions, load_predictions
from neurogame.evaluation.report import Report, Row, combine, evaluate

__all__ = [
    "Aligned",
    "Calibration",
    "Comparison",
    "Confidence",
    "Group",
    "Predictions",
    "Report",
    "Row",
    "Scores",
    "align",
    "by",
    "calibrate",
    "combine",
    "compare",
    "evaluate",
    "fit_temperature",
    "load_predictions",
    "mcnemar",
    "score",
]
