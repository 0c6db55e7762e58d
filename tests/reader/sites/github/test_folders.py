"""Repositories and folders of GitHub."""

from __future__ import annotations

from tests.reader.site import Site
from tests.reader.sites.github.hub import REPO, entry, missing, repository, way, whole
from tests.reader.sites.service import read, said, tell

ROOT = "https://github.com/octo/demo"


def furnished(site: Site, *more: dict[str, object]) -> None:
    entries = [
        entry("src", kind="dir"),
        entry("README.md", 60),
        entry("a.bin", 1229),
        entry("big", 3_500_000),
    ]
    tell(site, REPO, repository())
    tell(site, f"{REPO}/contents", [*entries, *more])
    readme = "# Demo\n\nSee [docs](docs/a.md), [root](/LICENSE) and ![it](img/x.png).\n"
    site.put("/raw/octo/demo/HEAD/README.md", readme, "text/plain; charset=utf-8")


def test_a_repository_is_its_name_description_files_and_readme(site: Site) -> None:
    furnished(site)
    page = read(site, ROOT, way(site))
    assert page.markdown == (
        "<repository>\nocto/demo\n</repository>\n\n"
        "<description>\nA demonstration\n</description>\n\n"
        "<files>\n📁 src/\n📄 README.md (60 B)\n📄 a.bin (1.2 KB)\n📄 big (3.3 MB)\n</files>\n\n"
        "<readme>\n\n# Demo\n\n"
        "See [docs](https://github.com/octo/demo/blob/HEAD/docs/a.md), "
        "[root](https://github.com/octo/demo/blob/HEAD/LICENSE) "
        "and ![it](https://github.com/octo/demo/raw/HEAD/img/x.png).\n\n</readme>"
    )
    assert (page.url, page.title, page.way) == (ROOT, "octo/demo: A demonstration", "github")
    assert (page.author, page.date, page.site) == ("octo", "2026-01-02T03:04:05Z", "GitHub")
    assert len([path for path in site.paths if path.startswith("/api")]) == 2


def test_other_spellings_of_a_repository_lead_to_it(site: Site) -> None:
    furnished(site)
    for url in (f"{ROOT}/", f"{ROOT}.git", "https://www.github.com/octo/demo?tab=readme-ov-file#demo"):
        assert read(site, url, way(site)).way == "github", url


def test_a_repository_without_description_and_readme_has_neither(site: Site) -> None:
    tell(site, REPO, repository(description=None, archived=True))
    tell(site, f"{REPO}/contents", [entry("a.py", 0)])
    page = read(site, ROOT, way(site))
    assert page.markdown == "<repository>\nocto/demo\n</repository>\n\n<files>\n📄 a.py (0 B)\n</files>"
    assert "archived" in said(page)


def test_an_empty_repository_is_no_error(site: Site) -> None:
    tell(site, REPO, repository())
    tell(site, f"{REPO}/contents", {"message": "This repository is empty."}, 404)
    assert "empty" in said(read(site, ROOT, way(site)))


def test_a_readme_in_another_folder_is_found(site: Site) -> None:
    tell(site, REPO, repository())
    tell(site, f"{REPO}/contents", [entry(".github", kind="dir")])
    site.put(f"{REPO}/readme", "# Elsewhere", "application/vnd.github.raw+json; charset=utf-8")
    assert "# Elsewhere" in read(site, ROOT, way(site)).markdown


def test_a_readme_that_cannot_be_read_leaves_the_rest(site: Site) -> None:
    tell(site, REPO, repository())
    tell(site, f"{REPO}/contents", [entry("README.md", 60)])
    page = read(site, ROOT, way(site))
    assert "📄 README.md" in page.markdown
    assert "README" in said(page)


def test_a_folder_shows_its_path_and_its_own_readme(site: Site) -> None:
    kinds = [
        entry("docs/b", kind="dir"),
        entry("docs/readme.md"),
        entry("docs/l", kind="symlink", target="../x"),
    ]
    sub = entry("docs/sub", 0, download_url=None)
    tell(site, f"{REPO}/contents/docs?ref=main", [*kinds, sub])
    site.put("/raw/octo/demo/main/docs/readme.md", "[up](../a.py) `[no](x.md)`", "text/plain")
    page = read(site, f"{ROOT}/tree/main/docs", way(site))
    assert page.markdown == (
        "<repository>\nocto/demo\n</repository>\n\n<ref>\nmain\n</ref>\n\n<path>\ndocs\n</path>\n\n"
        "<files>\n📁 b/\n🔗 l → ../x\n📄 readme.md (10 B)\n📦 sub @ 0123456 (submodule)\n</files>\n\n"
        "<readme>\n\n[up](https://github.com/octo/demo/blob/main/a.py) `[no](x.md)`\n\n</readme>"
    )


def test_a_branch_with_slashes_is_found_by_asking_for_branches(site: Site) -> None:
    missing(site, f"{REPO}/contents/x/docs")
    tell(site, f"{REPO}/git/matching-refs/heads/feature/x", [
        {"ref": "refs/heads/feature/xy"}, {"ref": "refs/heads/feature/x"}])  # fmt: skip
    tell(site, f"{REPO}/contents/docs?ref=feature%2Fx", [entry("docs/a.py")])
    page = read(site, f"{ROOT}/tree/feature/x/docs", way(site))
    assert "<ref>\nfeature/x\n</ref>\n\n<path>\ndocs\n</path>" in page.markdown
    assert len(site.asked) == 3


def test_a_tag_with_slashes_is_found_after_branches(site: Site) -> None:
    missing(site, f"{REPO}/contents/v1")
    tell(site, f"{REPO}/git/matching-refs/heads/pkg/v1", [])
    tell(site, f"{REPO}/git/matching-refs/tags/pkg/v1", [{"ref": "refs/tags/pkg/v1"}])
    tell(site, f"{REPO}/contents?ref=pkg%2Fv1", [entry("a.py")])
    page = read(site, f"{ROOT}/tree/pkg/v1", way(site))
    assert "<ref>\npkg/v1\n</ref>\n\n<path>\n/\n</path>" in page.markdown


def test_a_folder_of_more_than_is_listed_says_so(site: Site) -> None:
    tell(site, f"{REPO}/contents/d?ref=main", [entry(f"d/{n}") for n in range(1000)])
    assert "1000" in said(read(site, f"{ROOT}/tree/main/d", way(site)))


def test_a_file_under_the_url_of_a_folder_is_a_file(site: Site) -> None:
    tell(site, f"{REPO}/contents/a.py?ref=main", whole("a.py", b"x = 1\n"))
    assert "```python\nx = 1\n```" in read(site, f"{ROOT}/tree/main/a.py", way(site)).markdown
