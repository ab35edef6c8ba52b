#!/usr/bin/env python3
"""Prints hstcp_table.h: the response function of RFC 3649, section 5, as a table.

Row n (from 0) begins at the smallest window for which the formula's a(w) reaches n + 1, and has
b(w) there. The last row begins before High_Window, beyond which the RFC gives no decrease.
"""
from math import log

LOW_WINDOW, HIGH_WINDOW, HIGH_DECREASE = 38, 83000, 0.1


def b(w):
    if w <= LOW_WINDOW:
        return 0.5
    part = (log(w) - log(LOW_WINDOW)) / (log(HIGH_WINDOW) - log(LOW_WINDOW))
    return (HIGH_DECREASE - 0.5) * part + 0.5


def a(w):
    """w^2 p(w) 2 b(w) / (2 - b(w)) with p(w) = 0.078 / w^1.2; not below Reno's."""
    if w <= LOW_WINDOW:
        return 1.0
    return max(1.0, 0.078 * w**0.8 * 2 * b(w) / (2 - b(w)))


rows = [(0, b(0))]
for w in range(LOW_WINDOW + 1, HIGH_WINDOW + 1):
    if a(w) >= len(rows) + 1:
        rows.append((w, b(w)))

print("/* Made by hstcp_table.py. Row n, from 0: from this window on, segments, a(w) is n + 1;")
print(" * b(w) in 1/256. */")
print("#define ROWS %d" % len(rows))
print("static const struct {")
print("\t__u32 w, b;")
print("} TABLE[128] = {")
for w, share in rows:
    print("\t{ %d, %d }," % (w, round(share * 256)))
print("};")
