"""The phases of the spins: what temperature does to attention, and where mean field breaks down.

Twelve tokens of two groups: within a group they pull on each other, between the groups they push, the fields are weak.
Hot, every token is half on. Below the critical temperature, ρ(J)/γ = 1, the groups order, one on, one off, far beyond
what their fields ask for. You see the transition as a picture, and that mean field, which takes one side, is
far from the exact marginals below it.
"""

import torch

from neurogame import exact, ising

N = 12
RAMP = " ░▒▓█"


def system() -> tuple[torch.Tensor, torch.Tensor]:
    """Fields a little up for the first half; couplings ±1/n."""
    group = torch.tensor([1.0] * (N // 2) + [-1.0] * (N // 2), dtype=torch.float64)
    coupling = torch.outer(group, group).fill_diagonal_(0.0) / (N - 1)  # ρ(J) = 1
    return 0.02 * group, coupling


def main() -> None:
    """A line per temperature: α of every token as a shade, and the error of mean field and TAP."""
    field, coupling = system()
    print("   γ  ρ(J)/γ  attention of 12 tokens   steps  error: mean field    TAP")
    for gamma in (4.0, 2.0, 1.5, 1.2, 1.0, 0.9, 0.8, 0.6, 0.4, 0.2):
        truth = exact.marginals(field, coupling, gamma)
        state = ising.solve(field, coupling, gamma, damping=1.0, max_iter=1000)
        tap = ising.solve(field, coupling, gamma, method="tap", max_iter=1000)
        shades = "".join(RAMP[round(float(a) * (len(RAMP) - 1))] * 2 for a in state.alpha)
        errors = [float((found.alpha - truth).abs().max()) for found in (state, tap)]
        radius, steps = float(state.spectral_radius), int(state.iterations)
        print(f"{gamma:4.1f}  {radius:6.2f}  {shades} {steps:5}  {errors[0]:17.3f}  {errors[1]:5.3f}")


if __name__ == "__main__":
    main()
