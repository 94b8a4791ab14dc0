"""A tokenizer of whole words, for DAM and ESIM: its vocabulary is that of given sentences."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from neurogame._common.validation import check_count

PAD, UNK, NULL, SEP = "[PAD]", "[UNK]", "[NULL]", "[SEP]"

# Runs of letters and digits, single punctuation marks, and English contractions as the vectors have them:
# "isn't" is "is n't", "dog's" is "dog 's". A plain split at the apostrophe would lose the negation.
_WORD = r"(?i)\w+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]"


def build_tokenizer(
    sentences: Iterable[str],
    *,
    min_count: int = 1,
    lowercase: bool = True,
    known: Collection[str] | None = None,
    max_length: int = 128,
    null_token: bool = True,
) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words whose vocabulary is that of `sentences`, the frequent words first.

    A pair becomes `[NULL] premise [NULL] hypothesis`: each side starts with a token that a word without
    counterpart can align to, and is never empty. Without `null_token` it is `premise [SEP] hypothesis
    [SEP]`. `token_type_ids` are 0 on the premise's side and 1 on the hypothesis's.

    Args:
        sentences: give those of every split: a word that is in none of them is `[UNK]`, vector or not.
        min_count: a missing word must occur this often to get a vector of its own.
        lowercase: as GloVe 6B needs it.
        known: words that have a pretrained vector; they are kept however rare.
        max_length: tokens of a pair, beyond which it is truncated (if the caller asks for truncation).
        null_token: see above.
    """
    check_count("min_count", min_count)
    check_count("max_length", max_length)
    backend = Tokenizer(WordLevel({}, unk_token=UNK))
    steps: list[normalizers.Normalizer] = [normalizers.NFC(), normalizers.Replace("’", "'")]
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    counts = Counter(word for sentence in sentences for word in _words(backend, sentence))
    if not counts:
        raise ValueError("no words: a vocabulary needs at least one sentence that is not empty")
    kept = [word for word, count in counts.items() if count >= min_count or (known is not None and word in known)]
    specials = [PAD, UNK, NULL, SEP]
    vocabulary = specials + sorted(kept, key=lambda word: (-counts[word], word))
    backend.model = WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=UNK)
    single, second = (f"{NULL} $A", f"{NULL}:1 $B:1") if null_token else (f"$A {SEP}", f"$B:1 {SEP}:1")
    backend.post_processor = TemplateProcessing(
        single=single,
        pair=f"{single} {second}",
        special_tokens=[(token, specials.index(token)) for token in (NULL, SEP)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        sep_token=SEP,
        extra_special_tokens=[NULL],
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def _words(backend: Tokenizer, sentence: str) -> Iterator[str]:
    normal = backend.normalizer.normalize_str(sentence)
    return (word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
