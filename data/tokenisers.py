"""Tokenisers: BERT's WordPiece by name, of a hub repository, of a file, or trained on the texts.

`bert-uncased` is known by the digest of its vocabulary, so that any repository that has it will do;
`train:30000` trains a vocabulary of at most that size on the training split; `words` is a list of
whole words (of the generated data sets); all else is a directory or a hub repository of models.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import Tokenizer, decoders
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from tokenizers.trainers import WordPieceTrainer

from lightning_bench.data import cache, progress
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import repository

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: Repositories with BERT's uncased vocabulary, and its SHA-256.
_BERT = ("google-bert/bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2")
_BERT_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_BERT_WORDS = 30_522
#: As many letters as a trained vocabulary knows, the library's own default.
_ALPHABET = 1000


def vocab_size(name: str) -> int:
    """How many tokens a model must know; of one to be trained the most it can have."""
    if name == "bert-uncased":
        return _BERT_WORDS
    if name.startswith("train:"):
        return wanted_size(name)
    return load(name).get_vocab_size()


def wanted_size(name: str) -> int:
    """The number in `train:N`."""
    number = name.removeprefix("train:")
    if not number.isdecimal() or int(number) < 300:
        raise DataError(f"tokenizer {name!r}: write train:N with a vocabulary of 300 or more")
    return int(number)


def load(name: str) -> Tokenizer:
    """Load a tokeniser that exists already."""
    if name == "bert-uncased":
        return word_piece(_bert_vocabulary())
    path = Path(name).expanduser()
    folder = path if path.is_dir() else None
    if path.is_file():
        return word_piece(path)
    if folder is None:
        folder = _repository(name)
    if (folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    settings = folder / "tokenizer_config.json"
    stated = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    return word_piece(folder / "vocab.txt", lowercase=stated.get("do_lower_case", True))


def demand(name: str) -> None:
    """Raise DataError if the vocabulary of a tokeniser is nowhere to be had; fetches nothing."""
    if name in {"", "words"} or name.startswith("train:") or Path(name).expanduser().exists():
        return
    known = _BERT if name == "bert-uncased" else (name,)
    patterns = ("vocab.txt",) if name == "bert-uncased" else ("tokenizer.json", "vocab.txt")
    places = (repository.locate(of, [p], kind="model") for of in known for p in patterns)
    if all(place is None for place in places):
        repository.demand(known[0], patterns[:1], kind="model")


def word_piece(vocabulary: Path, *, lowercase: bool = True) -> Tokenizer:
    """BERT's tokeniser with the vocabulary of a file, a token a line."""
    try:
        tokens = vocabulary.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the vocabulary {vocabulary} can't be read: {error}") from None
    return of_tokens(tokens, lowercase=lowercase)


def of_tokens(tokens: Iterable[str], *, lowercase: bool = True) -> Tokenizer:
    """BERT's tokeniser with these tokens, numbered in their order."""
    # By `vocab`, since a file's name is silently ignored by some versions.
    numbered = {token: i for i, token in enumerate(tokens)}
    missing = [token for token in SPECIAL if token not in numbered]
    if missing:
        raise DataError(f"the vocabulary has no {', '.join(missing)}")
    tokenizer = _bert(WordPiece(numbered, unk_token=UNKNOWN), lowercase=lowercase)
    tokenizer.add_special_tokens([UNKNOWN, SEP, CLS, PAD, MASK])
    tokenizer.post_processor = BertProcessing((SEP, numbered[SEP]), (CLS, numbered[CLS]))
    return tokenizer


def _bert(model: WordPiece, *, lowercase: bool) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def train(texts: Callable[[], Iterable[str]], size: int) -> Tokenizer:
    """Train an uncased WordPiece on texts; at most `size` tokens, fewer where there is no more.

    It is kept by the content of the texts, so that whoever reads the same ones has it at once.
    """
    content = hashlib.sha256()
    for text in texts():
        content.update(text.encode() + b"\0")
    made_from = {"texts": content.hexdigest(), "size": size, "tokenizers": tokenizers.__version__}

    def fill(draft: cache.Draft) -> None:
        tokens = "\n".join(_trained(texts, size))
        draft.save("tokens", np.frombuffer(tokens.encode(), np.uint8))

    kept = cache.bundle(f"wordpiece-{size}", made_from, fill)
    return of_tokens(bytes(kept.array("tokens")).decode().split("\n"))


def _trained(texts: Callable[[], Iterable[str]], size: int) -> list[str]:
    """The tokens in their order.

    The library numbers the pieces of one letter in the order of a hash table, which differs from
    run to run, and breaks ties by number; so they are given to it, in the order of the alphabet.
    """
    progress.report(f"training a vocabulary of {size:,}")
    tokenizer = _bert(WordPiece(unk_token=UNKNOWN), lowercase=True)
    letters: Counter[str] = Counter()
    for text in texts():
        letters.update(tokenizer.normalizer.normalize_str(text))
    frequent = sorted(letters, key=lambda letter: (-letters[letter], letter))[:_ALPHABET]
    pieces = [f"##{letter}" for letter in sorted(frequent) if not letter.isspace()]
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        limit_alphabet=_ALPHABET,
        special_tokens=[*SPECIAL, *pieces],
        show_progress=False,
    )
    tokenizer.train_from_iterator(iter(texts()), trainer=trainer)
    numbered = tokenizer.get_vocab()
    return sorted(numbered, key=lambda token: numbered[token])


def _bert_vocabulary() -> Path:
    for name in _BERT:
        folder = repository.locate(name, ["vocab.txt"], kind="model")
        if folder is not None:
            break
    else:
        folder = repository.files(_BERT[0], ["vocab.txt"], kind="model")[0].parent
    path = folder / "vocab.txt"
    if hashlib.sha256(path.read_bytes()).hexdigest() != _BERT_SHA256:
        raise DataError(f"{path} is not BERT's uncased vocabulary; fetch it again")
    return path


def _repository(name: str) -> Path:
    for pattern in ("tokenizer.json", "vocab.txt"):
        folder = repository.locate(name, [pattern], kind="model")
        if folder is not None:
            return folder
    return repository.files(name, ["tokenizer*.json"], kind="model")[0].parent
