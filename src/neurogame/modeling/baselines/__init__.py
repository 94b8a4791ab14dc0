"""The baselines that read word vectors, DAM and ESIM: their configurations, and in the modules below the rest.

    dam, esim         the models                    word_vectors     files of pretrained vectors
    word_tokenizer    whole words                   word_embedding   a table of known and missing words

The configurations are apart from the models because transformers' Auto classes need them when neurogame is imported.
"""

from dataclasses import field
from typing import Any, Literal

from transformers.configuration_utils import PreTrainedConfig

from neurogame._common.validation import check_choice, check_count, check_positive
from neurogame.labels import ID2LABEL, LABEL2ID
from neurogame.modeling.configuration import check_labels_number, paired_labels

__all__ = ["DamConfig", "EsimConfig", "Trainable", "WordPairConfig"]

Trainable = Literal["all", "missing", "none"]


class WordPairConfig(PreTrainedConfig):
    """What DAM and ESIM have in common.

    Args:
        vocab_size: words of the tokenizer.
        embedding_size: dimension of the word vectors.
        hidden_size: width of the layers.
        dropout: see the model.
        embeddings_trainable: which word vectors are trained: "all", "none", or those of the "missing" words,
            which have no pretrained vector (all words, if no vectors have been loaded).
        missing_words: how many those are; set by `from_words`. None: no vectors have been loaded.
        initializer_range: standard deviation of untrained word vectors; that of GloVe 840B is .36.
        temperature: logits are divided by it where probabilities are reported (never in the loss).
    """

    vocab_size: int = 30000
    embedding_size: int = 300
    hidden_size: int = 300
    dropout: float | int = 0.5
    embeddings_trainable: Trainable = "all"
    missing_words: int | None = None
    initializer_range: float | int = 0.36
    temperature: float | int = 1.0
    pad_token_id: int | None = 0
    id2label: dict[int, str] | dict[str, str] | None = field(default_factory=lambda: dict(ID2LABEL))
    label2id: dict[str, int] | dict[str, str] | None = field(default_factory=lambda: dict(LABEL2ID))

    def __post_init__(self, **kwargs: Any) -> None:
        check_labels_number(kwargs)
        super().__post_init__(**kwargs)
        for name in ("vocab_size", "embedding_size", "hidden_size"):
            check_count(name, getattr(self, name))
        check_choice("embeddings_trainable", self.embeddings_trainable, Trainable)
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout!r}")
        check_positive("temperature", self.temperature)
        self.id2label, self.label2id = paired_labels(self.id2label, self.label2id)


class DamConfig(WordPairConfig):
    """Configuration of `DamForSequenceClassification`; `dropout` acts after each hidden layer."""

    model_type = "dam"

    hidden_size: int = 200
    dropout: float | int = 0.2
    embeddings_trainable: Trainable = "missing"


class EsimConfig(WordPairConfig):
    """Configuration of `EsimForSequenceClassification`.

    `dropout` acts on the input of both BiLSTMs, the same components at every word, and in the classifier.
    """

    model_type = "esim"
