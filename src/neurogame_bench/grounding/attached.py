"""A model as a black box, of which only hidden states and logits are seen, with a game fitted to it by `ground`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from neurogame._common.types import Tensor
from neurogame.grounding import Law
from neurogame.grounding.explainer import Explainer, ground
from neurogame.nli import NLI
from neurogame_bench.study import progress


class BlackBox(PreTrainedModel):  # type: ignore[misc]  # of a library without types
    """A sequence classifier like any other: a model whose own game nobody can see."""

    _supports_sdpa = True  # the attention is that of the model inside, whatever it is

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model.config)
        self.inner = model

    def get_input_embeddings(self) -> Any:
        """Those of the model."""
        return self.inner.get_input_embeddings()

    def forward(self, output_hidden_states: bool = False, **inputs: Tensor) -> SequenceClassifierOutput:
        """Logits, and hidden states where they are asked for."""
        said = self.inner(**inputs, output_hidden_states=output_hidden_states)
        return SequenceClassifierOutput(logits=said.logits, hidden_states=said.hidden_states)


def attached(nli: NLI, pairs: Iterable[Any], folder: Path, *, law: Law = "mixed", seed: int = 0) -> NLI:
    """The model as a black box with a game fitted to its answers on incomplete `pairs`, which is kept in `folder`."""
    model = BlackBox(nli.model).eval()
    if not folder.is_dir():
        done = 0

        def told(count: int) -> None:
            nonlocal done
            if done // 2000 != (done + count) // 2000:
                progress(f"attaching a game: {done + count} passes and steps")
            done += count

        rows = list(pairs)
        options: dict[str, Any] = {"most": len(rows), "law": law, "seed": seed, "bf16": True, "progress": told}
        ground(model, nli.tokenizer, rows, **options).save_pretrained(folder)
    return NLI(model, nli.tokenizer, name=nli.name, explainer=Explainer.from_pretrained(folder))
