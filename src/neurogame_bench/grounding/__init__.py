"""How far a grounded game is what the model says of incomplete texts: the study behind docs/grounding.md.

    r2             R² of logits(C) on held-out coalitions by law and size, and of additive and quadratic accounts
    enumeration    short pairs, all coalitions: correlation of values and interactions, swing words found
    refined        squared error of Shapley values by forward passes spent, against KernelSHAP and plain sampling
    rationale      pairs with at most half of the words that keep the label when they alone are read
    cost           processor time of an explanation over that of a prediction
    second_order   Spearman's ρ with second-order effects of deletion at the whole text
    claims         the paper's claims on the grounded game
    phrases        its J of "not good" and "very good", in the sentences of neurogame_bench.phrases

Each part has `row` (of one pair), `summary` (of all rows) and `table`; `bench` has the model and the pairs, `figures`
the statistics, `parts` puts them together. benchmarks/grounding.py runs it.
"""
