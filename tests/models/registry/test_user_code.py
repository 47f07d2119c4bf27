"""The user's own models: found by module or by file, and followed through their imports."""

import sys
from pathlib import Path

import pytest

from lightning_bench.models.errors import ModelError, UnknownModel
from lightning_bench.models.registry import catalogue, user_code


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes files of a project, which is the working directory; what is imported goes again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setenv("BENCH_PAGE_FOLDER", "")
    before = set(sys.modules)

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/').replace('/init', '/__init__')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def files(name: str) -> set[str]:
    return set(user_code.source_files(name)[0])


def test_imports_are_followed_absolutely_and_relatively(project) -> None:
    project(
        my__init="",
        my__net="import numpy\nfrom my.deep.block import Block\nimport helper, stuff.x.y as z",
        my__deep__init="from . import registered",
        my__deep__registered="",
        my__deep__block="def f():\n    from ..far import away\n    from ...above import too_far",
        my__far__away="",
        my__unused="",
        helper="import lightning_bench.models.errors\nfrom lightning_bench.models import vit",
        stuff__x__y="",
        numpy="",
    )
    found, ours = user_code.source_files("my.net:f")
    assert set(found) == {
        "./my/__init__.py", "./my/net.py", "./my/deep/__init__.py", "./my/deep/block.py",
        "./my/deep/registered.py", "./my/far/away.py", "./helper.py", "./stuff/x/y.py",
    }  # fmt: skip
    assert {"lightning_bench.models.errors", "lightning_bench.models.vit"} <= ours
    assert files("my/net.py:f") == set(found)


def test_an_installed_package_is_followed_within_itself(project, monkeypatch) -> None:
    folder = project(
        elsewhere__acme__init="from . import nets",
        elsewhere__acme__nets="import other\nfrom acme.deep import x",
        elsewhere__acme__deep="",
        elsewhere__other="",
        elsewhere__models__init="",
    )
    installed = folder / "site-packages"
    (folder / "elsewhere").rename(installed)
    monkeypatch.syspath_prepend(installed)
    assert files("acme.nets:f") == {"acme/__init__.py", "acme/nets.py", "acme/deep.py"}
    assert files("models:f") == {"installed/models/__init__.py"}


def test_a_named_module_of_the_project_comes_before_an_installed_one(project, monkeypatch) -> None:
    folder = project(
        wide__net="import einops_like\nWHERE = 'here'",
        einops_like="WHERE = 'here'",
        site__wide__init="",
        site__wide__net="WHERE = 'there'",
        site__einops_like="WHERE = 'there'",
    )
    monkeypatch.syspath_prepend(folder / "site")
    module = user_code.import_module("wide.net:f")
    assert module.WHERE == "here"
    # What it imports isn't named, and a file that is called as a library must not replace it.
    assert module.einops_like.WHERE == "there"


def test_a_file_may_have_any_name(project) -> None:
    """Other than as a module, it is in nobody's way."""
    folder = project(
        json="WHERE = 'here'\nfrom . import other", other="", odd__random="from ..json import WHERE"
    )
    assert user_code.import_module("json.py:f").WHERE == "here"
    assert user_code.import_module("odd/random.py:f").WHERE == "here"
    assert user_code.import_module(f"{folder}/odd/random.py:f").WHERE == "here"
    assert "dumps" in vars(sys.modules["json"])
    assert files("odd/random.py:f") == {"./odd/random.py", "./json.py", "./other.py"}


def test_models_lie_beside_the_page_or_in_the_working_directory(project, monkeypatch) -> None:
    folder = project(pages__nets__a="", nets__b="", pages__own="", nets__a="")
    user_code.look_beside(folder / "pages" / "page.yaml")
    assert user_code.locate("nets/a.py:f").file == folder / "pages" / "nets" / "a.py"
    assert user_code.locate("nets/b.py:f").file == folder / "nets" / "b.py"
    assert user_code.locate("own:f").file == folder / "pages" / "own.py"
    assert user_code.locate("nets.b:f").file == folder / "nets" / "b.py"
    assert user_code.locate("../nets/a.py:f").file == folder / "nets" / "a.py"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere.net:f", "No module named 'nowhere.net'"),
        ("my.nit:f", r"did you mean 'net'\?"),
        ("my/nit.py:f", r"there is no file my/nit.py in .*did you mean 'net.py'\?"),
        ("my.net:", "name it as module:function"),
        ("broken:f", r"its import failed: SyntaxError: .*broken.py, line 1"),
        ("raises.py:f", r"its import failed: ValueError: first line \(raises.py:1\)$"),
        ("ends:f", "its import failed: SystemExit: usage"),
        ("json:f", "another module 'json' is in use here; .*name its file: json.py:f"),
    ],
)
def test_what_is_wrong_is_one_line(project, name: str, says: str) -> None:
    project(
        my__net="", broken="x = = 1", raises="raise ValueError('first line\\nsecond')",
        ends="raise SystemExit('usage')", json="",
    )  # fmt: skip
    with pytest.raises(UnknownModel, match=says) as error:
        user_code.import_module(name)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(name)


def test_files_have_the_same_names_from_every_working_directory(project, monkeypatch) -> None:
    root = project(nets__deep="from . import side\n", nets__side="x = 1\n")
    (root / "pages").mkdir()
    user_code.look_beside(root / "pages" / "page.yaml")
    named = set()
    for folder in (root, root / "pages", root.parent):
        monkeypatch.chdir(folder)
        named.add(frozenset(user_code.source_files("../nets/deep.py:make")[0]))
    assert named == {frozenset({"../nets/deep.py", "../nets/side.py"})}


@pytest.mark.parametrize("ends", ["raise SystemExit(0)", "import os; os._exit(0)"])
def test_a_model_that_ends_its_process_is_one_line(project, ends: str) -> None:
    text = f"def make(*, channels: int = 3, image_size: int = 8, classes: int = 10):\n    {ends}\n"
    project(leaving=text)
    with pytest.raises(ModelError, match="the process ended before it had"):
        catalogue.find("leaving.py:make")


def test_a_class_is_a_model_as_a_function_is(project) -> None:
    project(
        small="from torch import nn\n\n\nclass Small(nn.Module):\n"
        "    def __init__(self, *, channels: int = 3, image_size: int = 8, classes: int = 10):\n"
        "        super().__init__()\n"
        "        self.head = nn.Linear(channels * image_size**2, classes)\n\n"
        "    def forward(self, x):\n        return self.head(x.flatten(1))\n"
    )
    entry = catalogue.find("small.py:Small")
    assert entry.parameters == 3 * 64 * 10 + 10
    assert set(entry.arguments) == {"channels", "image_size", "classes"}


def test_imports_are_found_wherever_a_statement_stands(tmp_path):
    file = tmp_path / "nested.py"
    file.write_text(
        "import a\n"
        "if a:\n import b\nelif a.x:\n import c\nelse:\n import d\n"
        "try:\n import e\nexcept E:\n import f\nelse:\n import g\nfinally:\n import h\n"
        "for _ in a:\n import i\nelse:\n import j\n"
        "while a:\n import k\nwith a:\n import l\n"
        "match a:\n case 1:\n  import m\n"
        "class C:\n import n\n def f(self):\n  async def g():\n   import o\n"
        "x = (lambda: 1 if a else 2)\n",
        encoding="utf-8",
    )
    assert {name for _, (name,) in user_code.imports(file, ("nested",))} == set("abcdefghijklmno")
