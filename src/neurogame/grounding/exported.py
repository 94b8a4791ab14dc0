"""ExportedGame: the grounded game of an ONNX graph, which gives V and the anchors beside the logits."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from neurogame._common.records import restore
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_choice
from neurogame.data.removal import Mode
from neurogame.data.words import Level
from neurogame.export.folder import GAME, GameRecord
from neurogame.grounding.game import Source, WordGame
from neurogame.modeling.checking import ModelError, read_json, short
from neurogame.outputs import Output
from neurogame.readout import GameTerms


@dataclass(frozen=True, eq=False)
class ExportedGame(GameRecord):
    """The counterpart of `Explainer` for an exported model: the graph gives the games, game.json the rest."""

    @classmethod
    def read(cls, folder: Path) -> "ExportedGame":
        """Read and check game.json of an exported folder; a ModelError where it is missing or damaged."""
        path, again = folder / GAME, "export the model again"
        try:
            game = cls(**read_json(path))
        except (ModelError, TypeError) as error:  # a TypeError is an unknown or missing field
            raise ModelError(f"{path} is missing or damaged: {short(error)}; {again}") from error
        try:
            restore(cls, vars(game))  # checks the types
            for name, kind in (("source", Source), ("removal", Mode), ("output", Output), ("level", Level)):
                check_choice(name, getattr(game, name), kind)
            R, base = (list(x.shape) for x in game._readout)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{path} is damaged: {short(error)}; {again}") from error
        if len(R) != 2 or base != R[:1] or game.parts not in (1, 2):
            raise ModelError(f"{path} is damaged: readout {R}, base {base}, parts {game.parts}; {again}")
        return game

    @cached_property
    def _readout(self) -> tuple[Float[Tensor, "labels heads"], Float[Tensor, "labels"]]:
        """R and b."""
        return torch.tensor(self.readout).float(), torch.tensor(self.base).float()

    def check(self, model: object, name: str = "this model") -> None:
        """Raise a ModelError unless the model is a graph with a game."""
        if not getattr(model, "has_game", False):
            raise ModelError(
                f"the game of an exported graph does not belong to {name}; fit one with `neurogame ground`"
            )

    def play(
        self, hidden: GameTerms, members: Float[Tensor, "words tokens"], playing: Bool[Tensor, "tokens"] | None = None
    ) -> WordGame:
        """The game of one text, from the outputs of the graph; see `Explainer.play`."""
        if self.source == "explainer":  # of a readout the graph knows who plays
            players = members.bool().any(0) if playing is None else playing
            hidden = GameTerms(hidden.V.masked_fill(~players[:, None], 0.0), hidden.anchor)
        attributes = {name: getattr(self, name) for name in ("source", "removal", "r2", "limit", "grounded")}
        return WordGame.of(hidden, members, *self._readout, **attributes)

    def save_pretrained(self, folder: str | Path) -> None:
        """Not possible: the game is a part of an exported folder."""
        raise ModelError(f"the game of an exported graph cannot be saved to {folder}; copy the folder of the export")
