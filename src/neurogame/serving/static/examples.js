// Pairs to begin with, each about one thing that makes inference hard: [name, premise, hypothesis, label].

export const EXAMPLES = [
  ["negation", "The museum is not open on Mondays.", "You can visit the museum on a Monday.", "contradiction"],
  ["kinds", "A woman is feeding two spaniels by the fountain.", "A person is feeding dogs.", "entailment"],
  ["quantifiers", "Every apprentice in the workshop has built a chair.", "Some of the apprentices have built nothing.", "contradiction"],
  ["passive", "The storm damaged the old lighthouse.", "The old lighthouse was damaged by the storm.", "entailment"],
  ["word order", "The nurse thanked the pilot.", "The pilot thanked the nurse.", "neutral"],
  ["numbers", "Three cyclists are waiting at the crossing.", "At least two people are waiting.", "entailment"],
  ["guess", "A man waits at the bus stop with a large suitcase.", "He is going on holiday.", "neutral"],
  ["opposites", "The lake was warm enough to swim in.", "The water of the lake was freezing.", "contradiction"],
  ["time", "She had already left when the letter arrived.", "She read the letter before she left.", "contradiction"],
  ["perhaps", "The bridge may be closed tomorrow.", "The bridge will be closed tomorrow.", "neutral"],
  ["if", "If it rains, the concert will be held indoors.", "The concert will be held outdoors.", "neutral"],
  ["long text", "Although the orchestra had rehearsed for weeks, the conductor called the concert off because half of the violinists were ill.", "The concert took place.", "contradiction"],
];
