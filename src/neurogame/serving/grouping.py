"""Which texts share a forward pass: those of similar length, since all are padded to the longest.

With a pass at the price of START + rows × longest, the cheapest way to cut the sorted lengths l_0 ≥ l_1 ≥ … is

    best_i = min_{j < i}  best_j + START + (i − j)·l_j.
"""

from collections.abc import Sequence

START = 200  # characters: on a CPU a pass costs some 45 tokens before its first, to bring the weights to the cores


def groups(lengths: Sequence[int]) -> list[list[int]]:
    """Indices in groups of similar length, the shortest texts first, at the least cost in all."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    best, begins = [0], [0]  # the least cost of the first i, and where the last group of it begins
    for i in range(1, len(order) + 1):
        costs = [best[j] + START + (i - j) * lengths[order[j]] for j in range(i)]
        best.append(min(costs))
        begins.append(costs.index(best[i]))
    found, end = [], len(order)
    while end:
        found.append(order[begins[end] : end])
        end = begins[end]
    return found
