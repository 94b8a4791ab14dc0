"""The baselines that read word vectors, DAM and ESIM, and what they read with.

    configuration     of both                       word_tokenizer   whole words, of given sentences
    dam, esim         the models                    word_vectors     files of pretrained vectors
                                                    word_embedding   a table of known and missing words

The configurations are imported at once, since transformers' Auto classes need them; a model when one is made.
"""

from neurogame.modeling.baselines.configuration import DamConfig, EsimConfig, Trainable, WordPairConfig

__all__ = ["DamConfig", "EsimConfig", "Trainable", "WordPairConfig"]
