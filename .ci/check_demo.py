"""Reads the document of `tabane demo --json` from standard input and checks what it promises."""

import json
import sys

document = json.load(sys.stdin)
assert document["sha256_ok"] is True, "the file arrived damaged"
single = document["single"]
assert len(single) == 2, f"expected two links, got {single}"
assert all(link["link"] and link["goodput_bps"] > 0 for link in single), single
bundle = document["bundle"]
best = max(link["goodput_bps"] for link in single)
print(f"bundle {bundle['goodput_bps'] / 1e6:.1f} Mbit/s, best link {best / 1e6:.1f} Mbit/s")
assert bundle["goodput_bps"] > best, "two links together are no faster than the better one"
shares = bundle["shares"]
values = list(shares.values()) if isinstance(shares, dict) else shares
values = [v["share"] if isinstance(v, dict) else v for v in values]
assert len(values) == 2 and abs(sum(values) - 1) < 0.01, f"shares do not add up: {shares}"
assert document["sum_bps"] > 0, document
