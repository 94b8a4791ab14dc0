"""Every public function has a fuzzer, or a reason why not."""

import importlib
import re
from pathlib import Path

PACKAGES = ["", ".data", ".evaluation", ".explanation", ".export", ".training", ".prediction"]
RECORDS = {  # made by the functions that are tried, and checked there
    *("GameValues", "NeuroGameOutput", "Prediction", "QueryGames", "SpinState"),
    *("EncodedDataset", "Malformed", "NoGold", "Pair", "Rationale"),
    *("Aligned", "Calibration", "Comparison", "Confidence", "Group", "Predictions", "Row", "Scores"),
    *("Exported", "Manifest", "TokenWeights", "Done"),
}
NOT_BY_NAME = {
    "train": "takes minutes; its run file is tried, and `neurogame train --check` among the verbs",
    "NeuroGameTrainer": "takes minutes",
    "OnnxNLI": "needs an export, which takes a minute; the folder it opens is tried",
    "RunConfig": "made by read_config, which is tried",
    "TrainingSection": "made by read_config, which is tried",
    "load_neurogame_attention": "from_pretrained of transformers, whose folders are tried",
    "register_attention": "takes no argument",
    "use_neurogame_attention": "changes a whole model; the layer it puts there is tried",
    "NeuroGameConfig": "in test_configurations, one test for three",
    "DamConfig": "likewise",
    "EsimConfig": "likewise",
    "NeuroGameForSequenceClassification": "in test_forward, one test for three",
    "DamForSequenceClassification": "likewise",
    "EsimForSequenceClassification": "likewise",
}


def public():
    """Names of what can be called, and how a target may be called after it."""
    for package in PACKAGES:
        module = importlib.import_module(f"neurogame{package}")
        for name in module.__all__:
            found = getattr(module, name)
            failure = isinstance(found, type) and issubclass(found, Exception)
            if callable(found) and getattr(found, "__module__", "").startswith("neurogame") and not failure:
                own = f"{found.__module__.split('.')[1]}.{name}"
                yield name, {own, name} if isinstance(found, type) or not package else {own}


def test_every_public_function_is_tried():
    sources = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    targets = {target for source in sources for target in re.findall(r'tried\(f?"([^"{]+)"', source)}
    missing = [
        name
        for name, spelled in public()
        if name not in RECORDS | set(NOT_BY_NAME)
        and not any(target == one or target.startswith(f"{one}.") for target in targets for one in spelled)
    ]
    assert not missing
    assert {name for name, _ in public()} >= RECORDS | set(NOT_BY_NAME)  # no reason for what is gone
