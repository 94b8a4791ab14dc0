"""The layer in a network of your own: which of twelve tokens decides the label?

A sequence of twelve random tokens is labelled by whether it holds the token "7". A plain `nn.Module` with an embedding,
`NeuroGameAttention` and a linear layer learns that in seconds. You see how the layer is put into a network, that its
gradients train it, and that afterwards attention is on the token that matters.
"""

import torch
from torch import Tensor, nn

from neurogame import NeuroGameAttention

TOKENS, LENGTH, DIM, SPECIAL = 10, 12, 32, 7


class Network(nn.Module):
    """Embedding → NeuroGameAttention → two logits; the record of the layer is returned beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, DIM)
        self.attention = NeuroGameAttention(DIM, heads=2, anchor="learned")  # no token is special by its place
        self.classifier = nn.Linear(DIM, 2)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and α as the mean over heads."""
        found = self.attention(self.embedding(ids))
        return self.classifier(found.output), found.alpha.mean(1)


def batch(size: int) -> tuple[Tensor, Tensor]:
    """Half of the sequences hold the special token, once."""
    ids = torch.randint(0, TOKENS - 1, (size, LENGTH))
    ids[ids == SPECIAL] = TOKENS - 1
    labels = torch.arange(size) % 2
    places = torch.randint(0, LENGTH, (size,))
    ids[labels == 1, places[labels == 1]] = SPECIAL
    return ids, labels


def main() -> None:
    """Train, then look where attention goes."""
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for step in range(1, 151):
        ids, labels = batch(64)
        loss = nn.functional.cross_entropy(network(ids)[0], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}")
    network.eval()
    ids, labels = batch(500)
    with torch.no_grad():
        logits, alpha = network(ids)
    print(f"accuracy on new sequences {(logits.argmax(-1) == labels).double().mean():.3f}")
    special = ids == SPECIAL
    print(f"α of token {SPECIAL}: {alpha[special].mean():.2f}, of the others: {alpha[~special].mean():.2f}")


if __name__ == "__main__":
    main()
