"""How good an explanation is: by what becomes of the prediction without its words, and by what people marked.

    deletion       comprehensiveness, sufficiency, normalised forms, τ-LOO, decision flip, AUC-TP, AUC of deletion
                   and of insertion
    plausibility   AUPRC, AP, token F1, span IOU-F1, token IOU against human highlights
    interaction    J_ij against second-order deletion effects, and against enumeration
    stability      rankings from other seeds
    baselines      rankings that know nothing of the model
    degradation    copies of explanations made worse on purpose, which a metric must tell from them
    coalitions     which inputs a metric asks for, each evaluated once
    correlation    Kendall's τ-b and Spearman's ρ, undefined for constants

Functions of numbers throughout: a model appears only as the function that `coalitions.Answers` asks. An undefined value
is NaN here, and a count in the report. `neurogame_bench.explanations` runs it all on a model and data.
"""
