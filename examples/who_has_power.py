"""Power in a vote, exactly and from samples: the oracles of `neurogame.exact` beside the estimates of `estimate_game`.

Five shareholders vote by their shares; more than half of them carry a motion. Shares and power differ: you see how far,
that estimates come with error bars, and that four times the samples halve the error.
"""

import torch
from torch import Tensor

from neurogame import estimate_game, exact

SHARES = torch.tensor([35.0, 25.0, 20.0, 15.0, 5.0])


def carried(coalitions: Tensor) -> Tensor:
    """v(C) = 1 if C holds more than half of the shares: a game as a function of bool [..., n]."""
    return (coalitions.float() @ SHARES > SHARES.sum() / 2).float()


def main() -> None:
    """Exact values, estimates, and how their error falls."""
    table = carried(exact.all_coalitions(len(SHARES)))  # all 32 coalitions
    phi, beta = exact.shapley(table), exact.banzhaf(table)
    found = estimate_game(carried, n=len(SHARES), samples=1024)
    print("share   Shapley  estimate ± error   Banzhaf")
    for i, share in enumerate(SHARES.tolist()):
        estimate = f"{found.shapley[i]:.3f} ± {found.shapley_se[i]:.3f}"
        print(f"{share:4.0f} %   {phi[i]:.3f}    {estimate}      {beta[i]:.3f}")
    J = exact.interactions(table)
    least, most = divmod(int(J.argmin()), len(SHARES)), divmod(int(J.argmax()), len(SHARES))
    named = [" and ".join(f"{SHARES[i]:.0f} %" for i in pair) for pair in (most, least)]
    print(f"{named[0]} need each other (J = {J.max():+.3f}), {named[1]} replace each other (J = {J.min():+.3f})")
    print("samples  error of the Shapley values, mean of 50 seeds")
    for samples in (16, 64, 256):
        errors = [
            (
                estimate_game(carried, len(SHARES), samples=samples, couplings="none", generator=seed).shapley - phi
            ).norm()
            for seed in map(torch.Generator().manual_seed, range(50))
        ]
        print(f"{samples:7}  {torch.stack(errors).mean():.3f}")


if __name__ == "__main__":
    main()
