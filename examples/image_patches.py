"""Beyond text: hand-written digits as sixteen patches that attend to each other.

Every 8 × 8 image of scikit-learn's digits is cut into sixteen patches of 2 × 2 pixels. Two blocks with
`NeuroGameSelfAttention` let the patches look at each other, and a linear layer names the digit by their mean. You see
that the layer works on tokens that are no words, which patches the last block attends to, and what ω the heads have
learned: above 0 patches that agree help each other, below 0 they replace each other.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from neurogame import NeuroGameSelfAttention

DIM, HEADS, TEST = 32, 4, 300


class Block(nn.Module):
    """x + attention(norm x), then x + feed-forward(norm x), as in any transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = NeuroGameSelfAttention(DIM, HEADS, batch_first=True)
        self.first, self.second = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.forward_part = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x: Tensor) -> Tensor:
        """[images, patches, DIM] to the same."""
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        mixed: Tensor = x + self.forward_part(self.second(x))
        return mixed


class Network(nn.Module):
    """Patches with their places → two blocks → their mean → ten logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Linear(4, DIM), nn.Parameter(torch.randn(16, DIM))
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 10))

    def forward(self, patches: Tensor) -> Tensor:
        """Logits [images, 10]."""
        logits: Tensor = self.head(self.blocks(self.embed(patches) + self.places).mean(1))
        return logits


def main() -> None:
    """Train, test, look."""
    torch.manual_seed(0)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    patches = (images.float() / 16).view(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
    order = torch.randperm(len(labels))
    train, test = order[TEST:], order[:TEST]
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for epoch in range(1, 9):
        for rows in train[torch.randperm(len(train))].split(32):
            loss = nn.functional.cross_entropy(network(patches[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}")
    network.eval()
    with torch.no_grad():
        right = (network(patches[test]).argmax(-1) == labels[test]).double().mean()
        print(f"accuracy on {TEST} other digits {right:.3f}")
        x = network.blocks[0](network.embed(patches[test]) + network.places)
        block = network.blocks[1]
        found = block.attention.games(block.first(x))
    print("ω of the heads:", *(f"{w:+.2f}" for b in network.blocks for w in b.attention.strength.tolist()))
    print(f"mean field after two updates: residual {found.residual.median():.3f}; patches per query, first test digit:")
    seen = found.alpha[0].mean((0, 1)).view(4, 4)
    for row in (seen / seen.max() * 4).round().int().tolist():
        print("   ", "".join(" ░▒▓█"[level] * 2 for level in row))


if __name__ == "__main__":
    main()
