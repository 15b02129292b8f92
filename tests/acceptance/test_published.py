"""What a package index shows of the wheel and the source distribution: valid metadata and working links."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.version import Version

import memory_sql
from tests.acceptance.bare import run

pytestmark = pytest.mark.slow  # builds both
CHECKOUT = Path(__file__).parents[2]
HOME = "https://code.example/memory/memory-sql"
FILES = f"{HOME}/blob/v{memory_sql.__version__}"
RAW = f"{HOME}/raw/v{memory_sql.__version__}"
PREPARE = "import sys; from hatchling.build import *; print(prepare_metadata_for_build_wheel(sys.argv[1]))"
LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    built = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", built, CHECKOUT, cwd=built)
    [file] = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        archive.extractall(built, filter="data")
    return built / file.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def of_wheel(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(name)


@pytest.fixture
def with_home(sources: Path, tmp_path: Path) -> Metadata:
    """As it will be once the project has a home."""
    for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "memory_sql/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((sources / name).read_bytes())
    project = tmp_path / "pyproject.toml"
    project.write_text(re.sub(r'^home = ".*?"', f'home = "{HOME}"', project.read_text("utf-8"), flags=re.M), "utf-8")
    run(sys.executable, "-c", PREPARE, tmp_path, cwd=tmp_path)
    [found] = tmp_path.glob("*.dist-info/METADATA")
    return Metadata.from_email(found.read_bytes(), validate=True)


def test_metadata_are_valid_and_those_of_the_sources(of_wheel: bytes, sources: Path) -> None:
    said = Metadata.from_email(of_wheel, validate=True)
    assert (sources / "PKG-INFO").read_bytes() == of_wheel
    assert said.version == Version(memory_sql.__version__)
    assert said.author == "memory_sql developers"
    assert said.description_content_type == "text/markdown"
    assert said.metadata_version == "2.4"
    assert all((said.summary, said.keywords, said.classifiers, said.license_expression))


def test_page_of_the_index_has_no_link_that_needs_the_files(of_wheel: bytes) -> None:
    said = Metadata.from_email(of_wheel, validate=True)
    assert said.description is not None
    assert [link for link in LINK.findall(said.description) if not link.startswith(("https://", "#"))] == []
    assert "![" not in said.description


def test_with_a_home_links_and_urls_lead_to_the_files_of_this_version(with_home: Metadata, sources: Path) -> None:
    assert with_home.project_urls == {
        "Source": HOME,
        "Documentation": f"{FILES}/docs/README.md",
        "Changelog": f"{FILES}/CHANGELOG.md",
    }
    links = LINK.findall(with_home.description or "")
    assert len(links) == len(LINK.findall((CHECKOUT / "README.md").read_text("utf-8")))
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", with_home.description or "")
    assert len(pictures) == 1
    assert all(link.startswith(f"{RAW}/") for link in pictures)
    own = [link for link in links if link.startswith(HOME)]
    paths = [link.removeprefix(f"{FILES}/").removeprefix(f"{RAW}/").partition("#")[0] for link in own]
    assert len(paths) > 20
    assert [path for path in paths if not (sources / path).is_file()] == []


def test_sources_build_the_same_wheel(sources: Path, wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, sources, cwd=tmp_path)
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(tmp_path / wheel.name) as theirs:
        assert {i.filename: i.CRC for i in theirs.infolist()} == {i.filename: i.CRC for i in ours.infolist()}
