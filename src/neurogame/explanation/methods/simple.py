"""Methods "attention" and "random": what is at hand anyway, and what an explanation must beat. Neither knows labels.

    attention   α_i, the weights of the pooling, mean over heads; where the model has none, the attention that [CLS]
                pays to token i in the last layer of the encoder, mean over heads
    random      uniform in [−1, 1), a function of the seed and the pair

Over the pieces of a word the mean is taken, as for `Explanation.alpha`.
"""

import zlib

import torch
from transformers import PreTrainedModel

from neurogame._types import Float, Tensor
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.modeling.heads import ClsPooling, SpinsPooling, pooling_of
from neurogame.modeling.loading import sharing


def applies(model: PreTrainedModel) -> bool:
    """Whether there are weights of tokens: a weighted sum as the pooling, or [CLS] in an encoder with attention."""
    pooling = pooling_of(model)
    if pooling is not None:
        reads_cls = isinstance(pooling, ClsPooling) or (isinstance(pooling, SpinsPooling) and pooling.source == "cls")
        return pooling.additive or (reads_cls and applies(model.encoder))
    return getattr(model.config, "num_attention_heads", None) is not None


def attention(reading: Reading, _: Question) -> Attribution:
    """Method "attention"."""
    if reading.pooled is not None and reading.pooled.weights is not None:
        weights = reading.pooled.weights
        return Attribution(reading.units.averaged(weights[0].double().cpu()).mean(0), diagnostics={"of": "the pooling"})
    scores = reading.units.averaged(_from_cls(reading).double().cpu()).mean(0)
    return Attribution(scores, diagnostics={"of": "[CLS] in the last layer"})


def random(reading: Reading, question: Question) -> Attribution:
    """Method "random"."""
    seed = zlib.crc32("\n".join((str(question.seed), *reading.tokens.texts)).encode())
    generator = torch.Generator().manual_seed(seed)
    return Attribution(2.0 * torch.rand(len(reading.units.read), generator=generator, dtype=torch.float64) - 1.0)


def _from_cls(reading: Reading) -> Float[Tensor, "heads tokens"]:
    """The row of [CLS], the first token where a tokenizer has none, in the last layer's attention."""
    ids, cls = reading.inputs["input_ids"][0], reading.nli.tokenizer.cls_token_id
    place = next((i for i, token in enumerate(ids.tolist()) if token == cls), 0)
    model = sharing(reading.model, attention="eager")  # the fused kernels, which are faster, do not keep the weights
    with torch.inference_mode(), reading.nli.own_tokens():
        reading.passes.add(1)
        layers = model(**reading.inputs, output_attentions=True).attentions
    if not layers or layers[-1] is None:
        raise ValueError(f"{reading.nli.name}, a {type(model).__name__}, does not give its attention weights")
    weights: Tensor = layers[-1][0, :, place]
    return weights
