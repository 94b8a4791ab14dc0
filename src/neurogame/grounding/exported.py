"""ExportedGame: the grounded game of an ONNX graph, which gives V and the anchors beside the logits."""

from dataclasses import dataclass
from pathlib import Path

import torch

from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_choice
from neurogame.data.removal import Mode
from neurogame.data.words import Level
from neurogame.export import folder as folders
from neurogame.grounding.game import Source, WordGame
from neurogame.modeling.checking import ModelError, short
from neurogame.outputs import Output
from neurogame.readout import GameTerms


@dataclass(frozen=True, eq=False)
class ExportedGame:
    """What `Explainer` is to a model of torch: the games come from the graph, the readout from game.json.

    Attributes:
        R, base: the readout.
        source: "explainer", or "readout" where the game is the model's own classifier.
        removal, output, parts, level, r2, limit: as `Explainer` has them.
        grounded: as `WordGame` has it.
    """

    R: Float[Tensor, "labels heads"]
    base: Float[Tensor, "labels"]
    source: Source
    removal: Mode
    output: Output
    parts: int
    level: Level
    r2: float | None
    limit: float | None
    grounded: bool | None = None

    @classmethod
    def read(cls, folder: Path) -> "ExportedGame":
        """game.json of an exported model.

        Args:
            folder: that `neurogame export` wrote.

        Raises:
            ModelError: it is missing or damaged.
        """
        papers = folders.read_game(folder)
        try:
            R, base = torch.tensor(papers.readout).float(), torch.tensor(papers.base).float()
            for name, kind in (("source", Source), ("removal", Mode), ("output", Output), ("level", Level)):
                check_choice(name, getattr(papers, name), kind)
            numbers = [None if x is None else float(x) for x in (papers.r2, papers.limit)]
        except (TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{folder / folders.GAME} is damaged: {short(error)}; export the model again") from error
        fits = R.dim() == 2 and base.shape == R.shape[:1]
        if not fits or papers.parts not in (1, 2) or not isinstance(papers.grounded, bool | None):
            shapes = f"readout {list(R.shape)}, base {list(base.shape)}, parts {papers.parts!r:.20}"
            shapes = f"{shapes}, grounded {papers.grounded!r:.20}"
            raise ModelError(f"{folder / folders.GAME} is damaged: {shapes}; export the model again")
        told = (papers.source, papers.removal, papers.output, papers.parts, papers.level, *numbers, papers.grounded)
        return cls(R, base, *told)  # type: ignore[arg-type]  # checked

    def check(self, model: object, name: str = "this model") -> None:
        """Refuse any other model than a graph with a game."""
        if not getattr(model, "has_game", False):
            raise ModelError(
                f"the game of an exported graph does not belong to {name}; fit one with `neurogame ground`"
            )

    def play(
        self, hidden: GameTerms, members: Float[Tensor, "words tokens"], playing: Bool[Tensor, "tokens"] | None = None
    ) -> WordGame:
        """The game of one text.

        Args:
            hidden: what the graph says of it.
            members: 1 where a token belongs to a player.
            playing: tokens that bring something, players' or not; None: those of the players.
        """
        if self.source == "explainer":  # of a readout the graph knows who plays
            players = members.bool().any(0) if playing is None else playing
            hidden = GameTerms(hidden.V.masked_fill(~players[:, None], 0.0), hidden.anchor)
        papers = {name: getattr(self, name) for name in ("source", "removal", "r2", "limit", "grounded")}
        return WordGame.of(hidden, members, self.R, self.base, **papers)

    def save_pretrained(self, folder: str | Path) -> None:
        """A part of an exported folder, which is copied."""
        raise ModelError(f"the game of an exported graph cannot be saved to {folder}; copy the folder of the export")
