"""Table of the datasets that recipes name. Checksums are published ones, or ones confirmed by many users; without one,
the known number of lines is checked."""

from dataclasses import dataclass, field

_GITHUB = "https://raw.githubusercontent.com"
_MULTI30K = f"{_GITHUB}/multi30k/dataset/master/data/task1/raw"
_SST2 = "https://github.com/clairett/pytorch-sentiment-classification/raw/master/data/SST2"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_FLICKR = "https://github.com/jbrownlee/Datasets/releases/download/Flickr8k"


@dataclass(frozen=True)
class Remote:
    """A file to download. `digest`: md5:…, sha256:… or lines:…; empty if only the converted files are checked."""

    url: str
    digest: str = ""

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """A dataset. `files`: files of its folder after conversion, with known digests. `layout`: the function of
    `layout.py` that converts the fetched files."""

    about: str
    home: str
    licence: str
    size: str
    remotes: tuple[Remote, ...]
    layout: str
    files: dict[str, str] = field(default_factory=dict)


DATA_SETS: dict[str, DataSet] = {
    "ett": DataSet(
        "ETTh1: loads and oil temperature of a transformer station, hour by hour (Zhou et al. 2020)",
        "https://github.com/zhouhaoyi/ETDataset", "CC BY-ND 4.0", "2.6 MB",
        (Remote(f"{_GITHUB}/zhouhaoyi/ETDataset/main/ETT-small/ETTh1.csv", "md5:8381763947c85f4be6ac456c508460d6"),),
        "as_they_are", {"ETTh1.csv": ""},
    ),
    "fashion-mnist": DataSet(
        "Fashion-MNIST: 70,000 pictures of clothes, 28×28, ten classes (Xiao et al. 2017)",
        "https://github.com/zalandoresearch/fashion-mnist", "MIT", "30 MB",
        tuple(
            Remote(f"{_GITHUB}/zalandoresearch/fashion-mnist/master/data/fashion/{name}-ubyte.gz", f"md5:{digest}")
            for name, digest in (
                ("train-images-idx3", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        "fashion_mnist", {"fashion_mnist.npz": ""},
    ),
    "flickr8k": DataSet(
        "Flickr8k: 8,000 photos with five captions each, official split (Hodosh et al. 2013)",
        "http://hockenmaier.cs.illinois.edu/Framing_Image_Description/KCCA.html",
        "non-commercial research only", "1.1 GB",
        (
            Remote(f"{_FLICKR}/Flickr8k_Dataset.zip", "md5:f18a1e2920de5bd84dae7cf08ec78978"),
            Remote(f"{_FLICKR}/Flickr8k_text.zip", "md5:bf6c1abcb8e4a833b7f922104de18627"),
        ),
        "flickr8k", {"captions.tsv": "", "images.tar": ""},
    ),
    "fsdd": DataSet(
        "Free Spoken Digit Dataset: 3,000 recordings of six speakers, 8 kHz (Jackson et al.)",
        "https://github.com/Jakobovski/free-spoken-digit-dataset", "CC BY-SA 4.0", "17 MB",
        (Remote("https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/heads/master.zip"),),
        "fsdd", {"recordings.tar": ""},
    ),
    "mini-librispeech": DataSet(
        "Mini LibriSpeech: five hours of read English to train on, two to validate (Panayotov et al. 2015)",
        "https://www.openslr.org/31/", "CC BY 4.0", "460 MB",
        (
            Remote("https://www.openslr.org/resources/31/train-clean-5.tar.gz", "md5:5df7d4e78065366204ca6845bb08f490"),
            Remote("https://www.openslr.org/resources/31/dev-clean-2.tar.gz", "md5:6d7ab67ac6a1d2c993d050e16d61080d"),
        ),
        "librispeech", {"train.tsv": "", "valid.tsv": ""},
    ),
    "multi30k": DataSet(
        "Multi30k: captions of photos in English and German, 29,000 pairs (Elliott et al. 2016)",
        "https://github.com/multi30k/dataset", "non-commercial research only", "2 MB",
        tuple(
            Remote(f"{_MULTI30K}/{part}.{language}.gz")
            for part in ("train", "val", "test_2016_flickr", "test_2017_flickr") for language in ("en", "de")
        ),
        "unpack_archive",
        {
            "train.en": "lines:29000",
            "train.de": "lines:29000",
            "val.en": "lines:1014",
            "val.de": "lines:1014",
            "test_2016_flickr.en": "lines:1000",
            "test_2016_flickr.de": "lines:1000",
            "test_2017_flickr.en": "lines:1000",
            "test_2017_flickr.de": "lines:1000",
        },
    ),
    "squad": DataSet(
        "SQuAD v1.1: 98,000 questions about articles of Wikipedia (Rajpurkar et al. 2016)",
        "https://rajpurkar.github.io/SQuAD-explorer/", "CC BY-SA 4.0", "35 MB",
        (
            Remote(
                f"{_SQUAD}/train-v1.1.json", "sha256:3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"
            ),
            Remote(
                f"{_SQUAD}/dev-v1.1.json", "sha256:95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"
            ),
        ),
        "squad", {"train-v1.1.json": "", "train-part-v1.1.json": "", "dev-v1.1.json": ""},
    ),
    "sst2": DataSet(
        "SST-2: whole sentences about films, good or bad (Socher et al. 2013): 6,920, 872 and 1,821",
        "https://nlp.stanford.edu/sentiment/", "research", "1 MB",
        (
            Remote(f"{_SST2}/train.tsv", "lines:6920"),
            Remote(f"{_SST2}/dev.tsv", "lines:872"),
            Remote(f"{_SST2}/test.tsv", "lines:1821"),
        ),
        "as_they_are", {"train.tsv": "", "dev.tsv": "", "test.tsv": ""},
    ),
    "tinyshakespeare": DataSet(
        "Tiny Shakespeare: 1.1 million characters of plays (Karpathy)",
        "https://github.com/karpathy/char-rnn", "public domain", "1.1 MB",
        (
            Remote(
                f"{_GITHUB}/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
        "as_they_are", {"input.txt": ""},
    ),
    "trec": DataSet(
        "TREC: questions in six coarse and fifty fine classes (Li and Roth 2002): 5,452 and 500",
        "https://cogcomp.seas.upenn.edu/Data/QA/QC/", "research", "0.4 MB",
        (
            Remote(
                "https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
                "sha256:9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
            ),
            Remote(
                "https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label",
                "sha256:033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
            ),
        ),
        "trec", {"train.tsv": "", "test.tsv": ""},
    ),
}  # fmt: skip
