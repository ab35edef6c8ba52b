"""Links of a static site: each that stays inside it must lead to a file, and its fragment to an
element there. Prints those that do not; exit 1 if there are any.

    python3 .ci/check_site.py FOLDER
"""

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and what of it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.links.append(value)
            elif name in ("id", "name"):
                self.ids.add(value)


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    # The playground's fragments are states, not elements; print.html repeats every page.
    paths = [path for path in root.rglob("*.html") if path.name not in ("print.html", "toc.html")]
    pages = {path: Page(path.read_text()) for path in paths}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("/"):
                continue
            aim = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if parts.path.endswith("/"):
                aim = aim / "index.html"
            if not aim.is_file():
                broken.append(f"{path.relative_to(root)}: {link}: no such file")
            elif parts.fragment and "play" not in aim.parts and aim in pages:
                if unquote(parts.fragment) not in pages[aim].ids:
                    broken.append(f"{path.relative_to(root)}: {link}: no such place")
    print("\n".join(sorted(set(broken))) or f"{len(pages)} pages, every link leads somewhere")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
