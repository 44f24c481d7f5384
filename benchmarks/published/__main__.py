"""Print what the planner does otherwise than published configurations, and write the page.

python -m benchmarks.published

Exits with 1 where a difference has no explanation, or an explanation no difference.
"""

from __future__ import annotations

import sys

from benchmarks.published import page
from benchmarks.published.compare import compare, pairs

from outrider.recipes.library import load_catalog


def main() -> int:
    """Compare, print, write."""
    catalog = load_catalog([])
    found = [compare(row, catalog) for row in pairs()]
    for one in found:
        print(f"{one.name}: {one.recipe}")
        for difference in one.differences:
            print(f"  {difference.what}: published {difference.published}, planned {difference.planned}")
            print(f"    {difference.why or 'NOT EXPLAINED'}")
        for what in one.idle:
            print(f"  {what}: explained, and there is no such difference")
    page.PAGE.write_text(page.page(found), encoding="utf-8")
    return int(any(one.unexplained or one.idle for one in found))


if __name__ == "__main__":
    sys.exit(main())
