"""Fine-tuning with `transformers.Trainer`: our model is an ordinary `PreTrainedModel`.

A tiny encoder with random weights and a NeuroGame head learns, from 48 pairs written here, that "no" and "every"
contradict each other. You see the pieces a Trainer needs (tokenizer, data set, collator) and that a model trained so is
saved, loaded and explained like the one that comes with the package. Needs `pip install 'neurogame[train]'`.
"""

import tempfile
from itertools import product

from transformers import BertConfig, BertTokenizer, PrinterCallback, Trainer, TrainingArguments, set_seed

import neurogame
from neurogame import NeuroGameConfig, NeuroGameForSequenceClassification
from neurogame.data import Pair, collate, encode

NOUNS, VERBS = ("dog", "cat", "child", "bird", "horse"), ("sleeps", "runs", "sings", "waits")
RELATED = {("every", "some"): "entailment", ("some", "every"): "neutral", ("no", "some"): "contradiction"}


def pairs(nouns: tuple[str, ...]) -> list[Pair]:
    """Every dog sleeps: some dog sleeps."""
    return [
        Pair(f"{first} {noun} {verb}", f"{second} {noun} {verb}", label)
        for noun, verb in product(nouns, VERBS)
        for (first, second), label in RELATED.items()
    ]


def main() -> None:
    """Train on four nouns, test on the fifth."""
    set_seed(0)
    words = sorted({word for pair in pairs(NOUNS) for word in (pair.premise + " " + pair.hypothesis).split()})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(special + words)})
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    encoder = BertConfig(vocab_size=len(tokenizer), **sizes)
    model = NeuroGameForSequenceClassification(NeuroGameConfig(encoder=encoder, dropout=0.0))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=60,
            per_device_train_batch_size=16,
            learning_rate=5e-3,
            logging_steps=20,
            disable_tqdm=True,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        )
        rows = encode(pairs(NOUNS[:-1]), tokenizer, max_length=32)
        trainer = Trainer(model, arguments, train_dataset=rows, data_collator=collate(tokenizer))
        trainer.remove_callback(PrinterCallback)  # it would print every log entry
        trainer.train()
        neurogame.NLI(model, tokenizer).save_pretrained(f"{folder}/model")
        nli = neurogame.load(f"{folder}/model")
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print("loss", *(f"{float(loss):.2f}" for loss in losses))
    unseen = pairs(NOUNS[-1:])
    found = nli.predict([(pair.premise, pair.hypothesis) for pair in unseen])
    print(
        f"right on a noun it was not trained on: {sum(f.label == p.label for f, p in zip(found, unseen, strict=True))}"
        f" of {len(unseen)}"
    )
    why = nli.explain("no horse runs", "some horse runs", method="occlusion")
    strongest = max(range(len(why.words)), key=lambda i: why.scores[i])
    print(f"{why.prediction.label}, above all because of {why.words[strongest]!r}")


if __name__ == "__main__":
    main()
