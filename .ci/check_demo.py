"""Reads the document of `tabane demo --json` from standard input and checks what it promises."""

import json
import sys

document = json.load(sys.stdin)
assert document["sha256_ok"] is True, "the file arrived damaged"
single = {link["link"]: link["goodput_bps"] for link in document["single"]}
assert len(single) == 2 and all(goodput > 0 for goodput in single.values()), single
bond, best = document["bond"]["goodput_bps"], max(single.values())
print(f"bond {bond / 1e6:.1f} Mbit/s; single " + json.dumps(single))
assert bond > best, "two links together are no faster than the better one"
shares = document["bond"]["shares"]
assert shares.keys() == single.keys(), f"shares of other links: {shares}"
assert abs(sum(shares.values()) - 1) < 0.01, f"shares do not add up: {shares}"
assert document["sum_bps"] > best, document
