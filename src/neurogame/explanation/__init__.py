"""Why a model answered as it did: word by word, with errors.

    reading      one pair through the model; `Question`, what is asked; `Attribution`, what a method answers
    methods      the methods, one file per family
    pipeline     `explain`: question → reading → method → record
    record       `Explanation`, the record                    summary      what is worth saying of it
    views        terminal, HTML page, figures                 collection   a file of pairs, explained
    temperature  a reading at another temperature

`removal` asks the model about a pair without some words, `regression` estimates a game that is expensive to
evaluate, `refinement` does so with a grounded game to start from. `what_if` is an older name for `explain`.
"""

from neurogame.explanation.methods import METHODS, best, methods_for, named
from neurogame.explanation.pipeline import explain
from neurogame.explanation.reading import Question
from neurogame.explanation.record import Explanation

__all__ = ["METHODS", "Explanation", "Question", "best", "explain", "methods_for", "named"]
