"""The text data sets that are known by name."""

from dataclasses import replace

from lightning_bench.data.dataset import DataSet, Task

BERT = "bert-uncased"
BERT_WORDS = 30_522

_GLUE = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
_GLUE_POLICY = (
    "the official validation is the test, as everywhere in the literature; "
    "{} of train for validation, {}, seed 0"
)


def _glue(
    name: str,
    title: str,
    columns: tuple[str, ...],
    metrics: tuple[str, ...],
    train: int,
    test: int,
    citation: str,
    *,
    labels: tuple[str, ...] = ("not_entailment", "entailment"),
    task: Task = "classify",
    licence: str = "not stated",
    download_bytes: int,
) -> DataSet:
    val = train // 10
    matched = {"test": "validation-*.parquet"}
    splits = {"train": train - val, "val": val, "test": test}
    if name == "mnli":
        matched = {
            "test": "validation_matched-*.parquet",
            "mismatched": "validation_mismatched-*.parquet",
        }
        splits["mismatched"] = 9_832
    files = {"train": "train-*.parquet", **matched}
    return DataSet(
        name=name,
        title=title,
        kind="text",
        task=task,
        classes=len(labels) if task == "classify" else 1,
        labels=labels,
        metrics=metrics,
        splits=splits,
        policy=_GLUE_POLICY.format(f"{val:,}", "by class" if task == "classify" else "at random"),
        source="hub",
        repository="nyu-mll/glue",
        revision=_GLUE,
        files={split: f"{name}/{pattern}" for split, pattern in files.items()},
        columns=columns,
        tokenizer=BERT,
        vocab_size=BERT_WORDS,
        length=128,
        download_bytes=download_bytes,
        licence=licence,
        citation=citation,
    )


def _pair(first: str = "sentence1", second: str = "sentence2") -> tuple[str, ...]:
    return first, second


_PARAPHRASE = ("not_equivalent", "equivalent")

_GLUE_TASKS = (
    _glue(
        "cola",
        "GLUE: Corpus of Linguistic Acceptability",
        ("sentence",),
        ("matthews", "accuracy"),
        8_551,
        1_043,
        "Warstadt et al., 2019, arXiv:1805.12471",
        labels=("unacceptable", "acceptable"),
        download_bytes=326_394,
    ),
    _glue(
        "sst2",
        "GLUE: Stanford Sentiment Treebank",
        ("sentence",),
        ("accuracy",),
        67_349,
        872,
        "Socher et al., 2013, aclanthology.org/D13-1170",
        labels=("negative", "positive"),
        download_bytes=3_331_058,
    ),
    _glue(
        "mrpc",
        "GLUE: Microsoft Research Paraphrase Corpus",
        _pair(),
        ("f1", "accuracy"),
        3_668,
        408,
        "Dolan and Brockett, 2005, aclanthology.org/I05-5002",
        labels=_PARAPHRASE,
        download_bytes=1_033_400,
    ),
    _glue(
        "qqp",
        "GLUE: Quora Question Pairs",
        _pair("question1", "question2"),
        ("f1", "accuracy"),
        363_846,
        40_430,
        "Iyer et al., 2017, Quora",
        labels=("not_duplicate", "duplicate"),
        download_bytes=73_472_088,
    ),
    _glue(
        "stsb",
        "GLUE: Semantic Textual Similarity Benchmark",
        _pair(),
        ("pearson", "spearman"),
        5_749,
        1_500,
        "Cer et al., 2017, arXiv:1708.00055",
        labels=(),
        task="regress",
        download_bytes=766_983,
    ),
    _glue(
        "mnli",
        "GLUE: Multi-Genre Natural Language Inference",
        _pair("premise", "hypothesis"),
        ("accuracy",),
        392_702,
        9_815,
        "Williams et al., 2018, arXiv:1704.05426",
        labels=("entailment", "neutral", "contradiction"),
        licence="OANC and others, research",
        download_bytes=57_168_425,
    ),
    _glue(
        "qnli",
        "GLUE: Question NLI",
        _pair("question", "sentence"),
        ("accuracy",),
        104_743,
        5_463,
        "Rajpurkar et al., 2016, arXiv:1606.05250",
        labels=("entailment", "not_entailment"),
        licence="CC BY-SA 4.0",
        download_bytes=19_278_324,
    ),
    _glue(
        "rte",
        "GLUE: Recognizing Textual Entailment",
        _pair(),
        ("accuracy",),
        2_490,
        277,
        "Bentivogli et al., 2009, TAC",
        labels=("entailment", "not_entailment"),
        download_bytes=1_274_409,
    ),
    _glue(
        "wnli",
        "GLUE: Winograd NLI",
        _pair(),
        ("accuracy",),
        635,
        71,
        "Levesque et al., 2012, KR",
        download_bytes=63_522,
    ),
)

_AG_NEWS = DataSet(
    name="ag-news",
    title="AG News topics",
    kind="text",
    classes=4,
    labels=("World", "Sports", "Business", "Sci/Tech"),
    metrics=("accuracy",),
    splits={"train": 108_000, "val": 12_000, "test": 7_600},
    policy="official train and test; 12,000 of train for validation, by class, seed 0",
    source="hub",
    repository="fancyzhx/ag_news",
    revision="eb185aade064a813bc0b7f42de02595523103ca4",
    files={"train": "data/train-*.parquet", "test": "data/test-*.parquet"},
    columns=("text",),
    tokenizer=BERT,
    vocab_size=BERT_WORDS,
    length=128,
    download_bytes=19_820_267,
    licence="non-commercial",
    citation="Zhang et al., 2015, arXiv:1509.01626",
)

_GENERATED = (
    DataSet(
        name="polarity",
        title="Generated sentences: polarity under negation and contrast",
        kind="text",
        classes=2,
        labels=("negative", "positive"),
        metrics=("accuracy",),
        splits={"train": 3_000, "val": 500, "test": 1_000},
        policy="generated with seed 0, no sentence twice; as many of each class",
        source="embedded: data/polarity.py, no network needed",
        tokenizer="words",
        vocab_size=128,
        length=32,
        licence="Apache 2.0",
        citation="this project",
    ),
    DataSet(
        name="entailment",
        title="Generated sentence pairs: entailment, neutral, contradiction",
        kind="text",
        classes=3,
        labels=("entailment", "neutral", "contradiction"),
        metrics=("accuracy",),
        splits={"train": 6_000, "val": 600, "test": 1_200},
        policy="generated with seed 0, no pair twice; as many of each class",
        source="embedded: data/entailment.py, no network needed",
        tokenizer="words",
        vocab_size=128,
        length=48,
        licence="Apache 2.0",
        citation="this project",
    ),
)


def _corpus(
    name: str,
    title: str,
    *,
    source: str,
    policy: str,
    tokenizer: str = BERT,
    vocab_size: int = BERT_WORDS,
    length: int = 128,
    licence: str = "not stated",
    citation: str = "",
    splits: dict[str, int] | None = None,
    repository: str | None = None,
    revision: str | None = None,
    files: dict[str, str] | None = None,
    download_bytes: int = 0,
) -> DataSet:
    return DataSet(
        name=name,
        title=title,
        kind="text",
        task="masked-lm",
        classes=0,
        metrics=("perplexity", "masked_accuracy"),
        splits=splits or {},
        policy=policy,
        source=source,
        repository=repository,
        revision=revision,
        files=files or {},
        columns=("text",),
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        length=length,
        download_bytes=download_bytes,
        licence=licence,
        citation=citation,
    )


def _wikitext(size: int, rows: int, download_bytes: int) -> DataSet:
    folder = f"wikitext-{size}-raw-v1"
    return _corpus(
        f"wikitext{size}",
        f"WikiText-{size}, raw",
        policy="official train, validation and test",
        source="hub",
        repository="Salesforce/wikitext",
        revision="b08601e04326c79dfdd32d625aee71d232d685c3",
        files={
            "train": f"{folder}/train-*.parquet",
            "val": f"{folder}/validation-*.parquet",
            "test": f"{folder}/test-*.parquet",
        },
        splits={"train": rows, "val": 3_760, "test": 4_358},
        licence="CC BY-SA 3.0 and GFDL",
        citation="Merity et al., 2017, arXiv:1609.07843",
        download_bytes=download_bytes,
    )


_CORPORA = (
    _corpus(
        "python-docs",
        "The interpreter's own documentation (pydoc_data.topics)",
        policy="every tenth topic for validation, every tenth for test; the text is that of the "
        "running Python, so the fingerprint differs between versions of it",
        source="embedded in Python, no network needed",
        tokenizer="train:4000",
        vocab_size=4000,
        length=64,
        licence="PSF License",
        citation="Python Software Foundation",
    ),
    _wikitext(2, 36_718, 7_747_362),
    _wikitext(103, 1_801_350, 313_093_838),
    _corpus(
        "c4-realnewslike",
        "C4, realnewslike",
        policy="official train; the official validation is the test; 13,000 of train to validate",
        source="hub",
        repository="allenai/c4",
        revision="1588ec454efa1a09f29cd18ddd04fe05fc8653a2",
        files={
            "train": "realnewslike/c4-train.*.json.gz",
            "test": "realnewslike/c4-validation.*.json.gz",
        },
        splits={"train": 13_786_838, "val": 13_000, "test": 13_863},
        licence="ODC-BY",
        citation="Raffel et al., 2020, arXiv:1910.10683",
        download_bytes=16_100_000_000,
    ),
    _corpus(
        "ag-news-text",
        "AG News as raw text",
        policy="official train and test; 12,000 of train for validation, seed 0",
        source="hub",
        repository="fancyzhx/ag_news",
        revision="eb185aade064a813bc0b7f42de02595523103ca4",
        files={"train": "data/train-*.parquet", "test": "data/test-*.parquet"},
        splits={"train": 108_000, "val": 12_000, "test": 7_600},
        licence="non-commercial",
        citation="Zhang et al., 2015, arXiv:1509.01626",
        download_bytes=19_820_267,
    ),
)


def own_text(path: str) -> DataSet:
    """The entry of somebody's own texts, for masked language modelling."""
    return _corpus(
        f"text:{path}",
        f"The texts in {path}",
        policy="10 % of the texts for validation, 10 % for test, seed 0",
        source=path,
        tokenizer="train:8000",
        vocab_size=8000,
    )


#: Next-sentence prediction over the same texts, as a task of two classes.
_NEXT = tuple(
    replace(
        corpus,
        name=f"{corpus.name}-nsp",
        title=f"{corpus.title}: is the second part what follows?",
        task="classify",
        classes=2,
        labels=("other", "next"),
        metrics=("accuracy",),
        policy=f"{corpus.policy}; half of the pairs follow each other, seed 0",
        splits={},
    )
    for corpus in _CORPORA
    if corpus.name in {"python-docs", "wikitext103"}
)

#: Masked words and next sentences at once, as BERT was pre-trained.
_PAIRS = tuple(
    replace(
        corpus,
        name=f"{corpus.name}-pairs",
        title=f"{corpus.title}: masked words, and is the second part what follows?",
        task="pretrain",
        labels=("other", "next"),
        metrics=("perplexity", "masked_accuracy", "nsp_accuracy"),
        policy=f"{corpus.policy}; half of the pairs follow each other, seed 0",
        splits={},
    )
    for corpus in _CORPORA
)

DATA_SETS = (*_NEXT, *_PAIRS, *_GLUE_TASKS, _AG_NEWS, *_GENERATED, *_CORPORA)
