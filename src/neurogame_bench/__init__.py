"""Measurements: what the layer costs, how good estimators and explanations are. `neurogame benchmark` runs them.

    attention, throughput, values, couplings   `run` measures, `table` and `figure` show
    explanations                               the same for the methods of explanation, on a user's own data
    faithfulness                               the metrics of explanations
    intervals, effects                         bootstrap intervals, paired comparisons, verdicts
    cli                                        the verb
    shipping                                   a trained model packed as the embedded one
    study, pages                               runs that can be resumed, and tables that are kept in pages

The package stands beside `neurogame` and is installed with it; the libraries it compares with are the extra
`neurogame[bench]`. It imports `neurogame`; of `neurogame` only the command line imports it.
"""
