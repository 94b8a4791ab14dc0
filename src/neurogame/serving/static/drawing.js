// The numbers that all drawings share: /health has them, from neurogame.explanation.views.drawing.

export const shared = {};

// Least, and more by strength.
export const along = ([least, more], share) => least + more * share;
